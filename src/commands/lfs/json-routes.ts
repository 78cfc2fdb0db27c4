/** Schemas and parser shared by the JSON routes of git-lfs. */
import type { FastifyInstance, FastifySchema } from 'fastify'
import { LFS_JSON, LfsParams } from '../../api/lfs/lfs.ts'
import { parseJsonBodies, refuseOtherBodies } from '../../http/bodies/json-bodies.ts'

/** Their tag in the API description. */
export const LFS_TAGS = ['lfs']

/** Accepts only bodies of git-lfs. */
export function parseLfsBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  refuseOtherBodies(app)
  for (const type of ['application/json', LFS_JSON]) parseJsonBodies(app, type)
}

/** Returns the schema of a JSON route of git-lfs. */
export function lfsSchema<S extends FastifySchema>(schema: S) {
  return { tags: LFS_TAGS, consumes: [LFS_JSON], produces: [LFS_JSON], params: LfsParams, ...schema }
}
