/** Setup of LFS tests: objects, and requests as git-lfs sends them. */
import { hash } from 'node:crypto'
import type { TestServer } from '../../start-server.ts'

export interface Sized {
  oid: string
  size: number
}

export const objectOf = (content: string | Buffer): Sized => ({
  oid: hash('sha256', content, 'hex'),
  size: Buffer.byteLength(content),
})

export interface Action {
  href: string
  header?: Record<string, string>
}

interface Batch {
  transfer: string
  objects: (Sized & {
    actions?: Record<'download' | 'upload' | 'verify', Action | undefined>
    error?: { code: number; message: string }
  })[]
}

export const LFS_JSON = 'application/vnd.git-lfs+json'

export function lfsOf(server: TestServer, fullName: string) {
  const base = `/${fullName}.git/info/lfs`

  async function json(login: string | null, method: string, path: string, body?: object) {
    const headers = { accept: LFS_JSON, ...(body && { 'content-type': LFS_JSON }) }
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const answer = await server.fetch(login, `${base}${path}`, init)
    const text = await answer.text()
    return {
      status: answer.status,
      type: answer.headers.get('content-type'),
      body: text === '' ? null : JSON.parse(text),
    }
  }

  const put = async (login: string | null, content: string | Buffer, object = objectOf(content)) => {
    const headers = { 'content-type': 'application/octet-stream' }
    const path = `${base}/objects/${object.oid}/${object.size}`
    const answer = await server.fetch(login, path, { method: 'PUT', headers, body: content })
    return { status: answer.status, text: await answer.text() }
  }

  return {
    base,
    json,
    put,
    get: (login: string | null, oid: string, headers: Record<string, string> = {}) =>
      server.fetch(login, `${base}/objects/${oid}`, { headers }),
    async batch(login: string | null, operation: string, objects: readonly Sized[]) {
      const answer = await json(login, 'POST', '/objects/batch', { operation, objects })
      const body: Batch = answer.body
      return { ...answer, body }
    },
  }
}
