/** Setup of attachment tests: a repository with a comment, and uploads of any shape. */
import { access, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { discussionStream } from '../../../src/events/streams.ts'
import type { TestServer } from '../../start-server.ts'

export interface Wire {
  id: number
  name: string
  size: number
  uuid: string
  download_count: number
  created_at: string
  browser_download_url: string
}

/** A form with one file. */
export function formWith(content: string | Buffer, name: string, part = 'attachment'): FormData {
  const form = new FormData()
  form.append(part, new Blob([content]), name)
  return form
}

/** The paths of all stored files, received or kept. */
export async function storedFiles(server: TestServer): Promise<string[]> {
  const entries = await readdir(join(server.dataDir, 'attachments'), { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile() && entry.name !== 'log').map(({ name }) => name)
}

export async function isStored(server: TestServer, uuid: string): Promise<boolean> {
  return access(join(server.dataDir, 'attachments', uuid.slice(0, 2), uuid)).then(
    () => true,
    () => false,
  )
}

/**
 * A repository of alice's with one issue. `others` adds carol, who may write, and bob, who reads if it is public; that
 * is
 * slow.
 */
export async function attachmentRepository(
  server: TestServer,
  name: string,
  { others = true, ...options }: { others?: boolean; private?: boolean } = {},
) {
  const alice = await server.as('alice')
  const clients = new Map([['alice', alice]])
  if (others) {
    for (const login of ['bob', 'carol']) clients.set(login, await server.as(login))
  }
  const { data } = await alice.user.createCurrentUserRepo({ name, ...options })
  if (others) await alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'write' })
  await alice.repos.issueCreateIssue('alice', name, { title: 'First' })
  const repoId = data.id ?? 0
  const pathOf = (commentId: number, rest = '') =>
    `/api/v1/repos/alice/${name}/issues/comments/${commentId}/assets${rest}`
  return {
    repoId,
    pathOf,
    say: async (login = 'alice'): Promise<number> => {
      const client = clients.get(login) ?? (await server.as(login))
      return (await client.repos.issueCreateComment('alice', name, 1, { body: 'See the file' })).data.id ?? 0
    },
    /** Posts a form, or anything else, to a comment. */
    post: async (
      login: string | null,
      commentId: number,
      body: RequestInit['body'],
      { query = '', headers = {} }: { query?: string; headers?: Record<string, string> } = {},
    ): Promise<{ status: number; body: Wire & { message: string } }> => {
      const init = { method: 'POST', body: body ?? null, headers }
      const answer = await server.fetch(login, `${pathOf(commentId)}${query}`, init)
      return { status: answer.status, body: JSON.parse(await answer.text()) }
    },
    async events(): Promise<{ type: string; data: unknown }[]> {
      const found: { type: string; data: unknown }[] = []
      const stream = discussionStream({ repoId, index: 1, isPull: false })
      for await (const { type, data } of server.services.events.readStream(stream)) found.push({ type, data })
      return found
    },
  }
}
