/** Retries much later, and the events in between. */
import type { CommentEvent } from '../../../src/events/catalog/comments.ts'
import type { TestServer } from '../../start-server.ts'

/** More events than the log remembers by id. */
export const MANY = 510

export async function poster(server: TestServer, login: string) {
  await server.as(login)
  return async (path: string, body: object, key?: string) => {
    const headers = {
      'content-type': 'application/json',
      ...(key !== undefined && { 'idempotency-key': key }),
    }
    const init = { method: 'POST', headers, body: JSON.stringify(body) }
    const answer = await server.fetch(login, `/api/v1${path}`, init)
    const text = await answer.text()
    return { status: answer.status, id: /"(?:id|name)":[^,}]*/.exec(text)?.[0], text }
  }
}

/** Appends many comments of other users. */
export const comments = (repoId: number, index: number, count: number): CommentEvent[] =>
  Array.from({ length: count }, (_, i) => ({
    type: 'CommentAdded',
    data: { repoId, index, commentId: 1_000_000 + i, author: { id: 1, login: 'admin' }, body: 'noise' },
  }))
