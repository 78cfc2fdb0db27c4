/** Statuses of git LFS by role: see `route-rows.ts`. As with git, anonymous clients are asked to sign in. */
import { hash } from 'node:crypto'
import type { Call, Place, World } from './route-world.ts'

const LFS = '/:owner/:repo/info/lfs'
const read = '200 200 200 200 200 200 / 401 404 200 200 200 200'
const write = '401 403 403 200 200 200 / 401 404 403 200 200 200'

const upload = (content: string) => ({
  path: { oid: hash('sha256', content, 'hex'), size: content.length },
  headers: { 'content-type': 'application/octet-stream' },
  body: content,
})

/** Returns a new object of a place. */
async function objectOf({ owner, repo, next }: Place, { send }: World) {
  const { path, ...call } = upload(`large ${next()}`)
  const sent = { ...call, path: { owner, repo, ...path } }
  const { status, text } = await send('alice', 'PUT', `${LFS}/objects/:oid/:size`, sent)
  if (status !== 200) throw new Error(`upload: ${status} ${text}`)
  return path
}

async function lockOf({ owner, repo, next }: Place, { send }: World): Promise<string> {
  const call = { path: { owner, repo }, body: { path: `file ${next()}` } }
  const { text } = await send('bob', 'POST', `${LFS}/locks`, call)
  const { lock }: { lock: { id: string } } = JSON.parse(text)
  return lock.id
}

interface Row {
  who: string
  call?: (place: Place, world: World) => Call | Promise<Call>
}

export const LFS_ROWS: Readonly<Record<string, Row>> = {
  [`POST ${LFS}/objects/batch`]: {
    who: read,
    call: () => ({ body: { operation: 'download', objects: [] } }),
  },
  [`GET ${LFS}/objects/:oid`]: {
    who: read,
    call: async (place, world) => ({ path: await objectOf(place, world) }),
  },
  [`PUT ${LFS}/objects/:oid/:size`]: { who: write, call: ({ next }) => upload(`large ${next()}`) },
  [`POST ${LFS}/verify`]: {
    who: read,
    call: async (place, world) => ({ body: await objectOf(place, world) }),
  },
  [`GET ${LFS}/locks`]: { who: read },
  [`POST ${LFS}/locks`]: {
    who: write.replaceAll('200', '201'),
    call: ({ next }) => ({ body: { path: `file ${next()}` } }),
  },
  [`POST ${LFS}/locks/verify`]: { who: write, call: () => ({ body: {} }) },
  [`POST ${LFS}/locks/:id/unlock`]: {
    who: write,
    call: async (place, world) => ({ path: { id: await lockOf(place, world) }, body: { force: true } }),
  },
}
