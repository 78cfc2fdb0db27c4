/** The names of operations in the API's documentation, and where each is documented. */
import type { FastifyRequest } from 'fastify'

/** The name of an operation: `getReposOwnerRepoPullsIndex`. `path`: as routes have it. */
export function operationIdOf(method: string, path: string): string {
  const words =
    path
      .replace(/^\/api\/v1/, '')
      .replaceAll('*', 'rest')
      .match(/[a-z0-9]+/gi) ?? []
  return [
    method.toLowerCase(),
    ...words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`),
  ].join('')
}

/** Where the operation of a request is documented; the whole documentation when it is not. */
export function operationUrl({ method, routeOptions }: FastifyRequest, docsUrl: string): string {
  const { schema, url } = routeOptions
  const [tag] = schema?.tags ?? []
  if (url === undefined || tag === undefined || schema?.hide === true) return docsUrl
  return `${docsUrl}#/${tag}/${operationIdOf(method === 'HEAD' ? 'GET' : method, url)}`
}
