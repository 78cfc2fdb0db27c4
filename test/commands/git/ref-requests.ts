/** Requests that move a ref, and their recorded moves, for tests of lost records. */
import { gitStream } from '../../../src/events/streams.ts'
import type { TestServer } from '../../start-server.ts'
import { eventsIn } from '../pull-requests/pull-repository.ts'

export const REQUESTS = [
  {
    what: 'a commit to a branch',
    path: 'contents/a',
    body: { content: 'YQ==' },
    moved: /^rename \S+\/refs\/heads\/main\.lock/,
    ref: 'refs/heads/main',
    cause: 'push',
  },
  {
    what: 'a commit to a new branch',
    path: 'contents/b',
    body: { content: 'YQ==', new_branch: 'patch' },
    moved: /^git update-ref .*refs\/heads\/patch/,
    ref: 'refs/heads/patch',
    cause: 'push',
  },
  {
    what: 'a branch',
    path: 'branches',
    body: { new_branch_name: 'made' },
    moved: /^git update-ref .*refs\/heads\/made/,
    ref: 'refs/heads/made',
    cause: 'branch-creation',
  },
  {
    what: 'a tag',
    path: 'tags',
    body: { tag_name: 'v1', message: 'one' },
    moved: /^git update-ref .*refs\/tags\/v1/,
    ref: 'refs/tags/v1',
    cause: 'tag-creation',
  },
  {
    what: 'a release',
    path: 'releases',
    body: { tag_name: 'v2' },
    moved: /^git update-ref .*refs\/tags\/v2/,
    ref: 'refs/tags/v2',
    cause: 'tag-creation',
  },
  {
    what: 'a merge that deletes its branch',
    path: 'pulls/1/merge',
    body: { Do: 'merge', delete_branch_after_merge: true },
    moved: /^git update-ref .*delete refs\/heads\/topic/,
    ref: 'refs/heads/topic',
    cause: 'branch-deletion',
    status: 200,
  },
]

/** Returns the recorded moves of a ref, newest first. */
export async function movesOf(server: TestServer, repoId: number, ref: string) {
  const moves = []
  for (const { type, data, metadata } of await eventsIn(server, gitStream(repoId))) {
    if (type !== 'RefsUpdated') continue
    for (const move of data.refs)
      if (move.ref === ref) moves.unshift({ cause: data.cause, by: metadata.actor?.login, to: move.to })
  }
  return moves
}
