/** What the routes have in common by which git-lfs and the server exchange JSON. */
import type { FastifyInstance, FastifySchema } from 'fastify'
import { LFS_JSON, LfsParams } from '../../api/lfs/lfs.ts'
import { parseJsonBodies, refuseOtherBodies } from '../../http/bodies/json-bodies.ts'

/** Their group in the API's documentation. */
export const LFS_TAGS = ['lfs']

/** Reads bodies of git-lfs, and no others. */
export function parseLfsBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  refuseOtherBodies(app)
  for (const type of ['application/json', LFS_JSON]) parseJsonBodies(app, type)
}

/** The schema of a route that takes and gives JSON of git-lfs. */
export function lfsSchema<S extends FastifySchema>(schema: S) {
  return { tags: LFS_TAGS, consumes: [LFS_JSON], produces: [LFS_JSON], params: LfsParams, ...schema }
}
