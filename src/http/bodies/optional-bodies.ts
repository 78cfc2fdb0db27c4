/** Says in the API's documentation which bodies may be left out. */
import type { SwaggerTransformObject } from '@fastify/swagger'

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null

/** The plugin makes every body required. One whose schema has null may be absent. */
export const withOptionalBodies: SwaggerTransformObject = (document) => {
  if (!('openapiObject' in document)) return document.swaggerObject
  const { openapiObject } = document
  for (const operation of Object.values(openapiObject.paths ?? {}).flatMap((path) =>
    Object.values({ ...path }),
  )) {
    const body: unknown = isObject(operation) ? operation.requestBody : undefined
    if (!isObject(body) || !isObject(body.content)) continue
    const [media] = Object.values(body.content)
    if (isObject(media) && isObject(media.schema) && media.schema.nullable === true) body.required = false
  }
  return openapiObject
}
