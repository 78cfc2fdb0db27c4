/** The body that adds a public SSH key. */
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../../errors/refusal.ts'
import { textProblem } from '../users/accounts/names.ts'
import type { NewKey } from './change.ts'

export const CreateKeyOption = Type.Object(
  {
    title: Type.String({ minLength: 1, maxLength: 255 }),
    key: Type.String({ minLength: 1, maxLength: 16_384 }),
    read_only: Type.Optional(Type.Boolean()),
  },
  { title: 'CreateKeyOption' },
)

/** @throws Refused (unprocessable) for a title with control characters */
export function wantedKey({
  title,
  key,
  read_only: readOnly = false,
}: Static<typeof CreateKeyOption>): NewKey {
  const problem = title.trim() === '' ? 'must not be empty' : textProblem(title)
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`title: ${problem}`))
  return { title, key, readOnly }
}
