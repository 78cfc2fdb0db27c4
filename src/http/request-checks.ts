/** The checks of requests by their schemas. */
import { Ajv, type AnySchema } from 'ajv'
import type { FastifySchemaCompiler } from 'fastify'
import { compiledLater } from '../checked-json.ts'

/**
 * Each is compiled when the first request needs it: to compile all of them took a third of the start, and most routes
 * are not asked for hours.
 */
export function requestChecks(): FastifySchemaCompiler<AnySchema> {
  // Without coercion: "1" is not 1. Unknown fields are ignored, as in Gitea.
  const ajv = new Ajv({ useDefaults: true, formats: { binary: true } })
  return ({ schema }) => compiledLater(ajv, schema)
}
