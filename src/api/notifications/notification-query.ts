/** The query parameters that select notifications, to read or to mark them. */

import { Refused, refuse } from '../../errors/refusal.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { RepeatedText, textsOf } from '../../http/requests/repeated-text.ts'
import { STATUSES, type Status } from './notifications.ts'

export const StatusQuery = {
  all: OptionalText('true: also read notifications'),
  'status-types': RepeatedText('Only notifications with this status: unread, read or pinned'),
}

const isStatus = (text: string): text is Status => STATUSES.some((status) => status === text)

/** Returns the requested statuses. @throws Refused (unprocessable) for an unknown one */
export function statusesOf(
  query: { all?: string; 'status-types'?: string | string[] },
  whenAbsent: readonly Status[],
): readonly Status[] {
  if (flagOf(query.all, false)) return STATUSES
  const given = textsOf(query['status-types'])
  return given.length === 0 ? whenAbsent : given.map((text) => statusNamed('status-types', text))
}

/** @throws Refused (unprocessable) for an unknown status */
export function statusNamed(field: string, text: string): Status {
  if (isStatus(text)) return text
  throw new Refused(refuse.unprocessable(`${field}: '${text.slice(0, 40)}' is not unread, read or pinned`))
}
