/** Git as certain people run it at a certain time: what it makes then has the same id every time. */
import type { WorkTree } from '../../git-client.ts'

export interface Person {
  name: string
  email: string
}

/** Resolves to what git prints, trimmed. `at` as in `GIT_COMMITTER_DATE`; without an author git takes what it finds. */
export async function gitAs(
  work: WorkTree,
  people: { author?: Person; committer: Person; at: string },
  ...args: string[]
): Promise<string> {
  const { author, committer, at } = people
  const env = {
    PATH: process.env.PATH ?? '',
    HOME: '/nonexistent',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_EDITOR: 'true',
    GIT_COMMITTER_NAME: committer.name,
    GIT_COMMITTER_EMAIL: committer.email,
    GIT_COMMITTER_DATE: at,
    ...(author && { GIT_AUTHOR_NAME: author.name, GIT_AUTHOR_EMAIL: author.email, GIT_AUTHOR_DATE: at }),
  }
  return work.gitWith(env, ...args)
}
