/** The process that records mentions in a text as account ids: the text may be erased later, and a login may change. */
import { append } from '../../commands/execution/append.ts'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import type { Envelope } from '../../events/domain-events.ts'
import type { Services } from '../../services/services.ts'
import { isHistorical, type ProcessManager, processManager } from '../process-manager.ts'

/** Maximum number of mentions per text. */
const MAX_MENTIONS = 20
const MENTION = /(?<![\w/@.`-])@(\w[\w.-]{0,60})/g

/** Returns the unique logins after `@` in a text, in lower case. */
export function mentionsIn(text: string): string[] {
  const logins = new Set<string>()
  for (const [, login = ''] of text.matchAll(MENTION)) {
    logins.add(login.toLowerCase().replace(/[.-]+$/, ''))
    if (logins.size === MAX_MENTIONS) break
  }
  return [...logins]
}

export function mentions(services: Services): ProcessManager {
  const { accounts } = services.views

  async function record(
    context: CommandContext,
    event: Envelope & { data: IssueRef & { body: string } },
    commentId: number | null,
  ): Promise<void> {
    const { stream, data } = event
    const { repoId, index } = data
    const logins = mentionsIn(data.body)
    if (logins.length === 0 || isHistorical(services, context, event)) return
    const found = await accounts.find({ loginKey: { $in: logins }, kind: 'user' })
    const users = found
      .filter(({ id, deleted }) => !deleted && id !== context.actor?.id)
      .map(({ id, login }) => ({ id, login }))
    if (users.length === 0) return
    const mentioned = { type: 'UsersMentioned', data: { repoId, index, commentId, users } } as const
    await append(services, context, stream, 'mention', [mentioned], 'any')
  }

  return {
    ...processManager('mentions', {
      IssueOpened: (context, event) => record(context, event, null),
      PullRequestOpened: (context, event) => record(context, event, null),
      CommentAdded: (context, event) => record(context, event, event.data.commentId),
      ReviewSubmitted: (context, event) => record(context, event, event.data.reviewId),
      ReviewCommentAdded: (context, event) => record(context, event, event.data.commentId),
    }),
    /** Most texts mention no user. */
    concerns: ({ data }) => 'body' in data && typeof data.body === 'string' && data.body.includes('@'),
  }
}
