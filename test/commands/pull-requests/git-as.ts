/** Runs git as a given author at a given time, so that ids are reproducible. */
import type { WorkTree } from '../../git-client.ts'

export interface Person {
  name: string
  email: string
}

/** Resolves to git's trimmed output. `at` as in `GIT_COMMITTER_DATE`; without an author git uses its default. */
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
