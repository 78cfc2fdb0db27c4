/** Answers `go get` with the repository of a module. */
import type { FastifyRequest } from 'fastify'
import { html } from 'ghtml'

/** The owner, the repository, and optionally a package in it. */
const PACKAGE = /^\/([\w.-]+)\/([\w.-]+)(?:\/[^?]*)?\?(?:.*&)?go-get=1(?:&|$)/

/**
 * Returns the page for a URL like `/alice/app/some/package?go-get=1`; undefined for any other. As in Gitea, it is the
 * same whether the repository exists or not.
 *
 * @param publicUrl without a slash at its end
 */
export function goImport({ method, url }: Pick<FastifyRequest, 'method' | 'url'>, publicUrl: string) {
  const [, owner, name] = (method === 'GET' && PACKAGE.exec(url)) || []
  if (owner === undefined || name === undefined) return undefined
  const repository = `${publicUrl}/${owner}/${name}`
  const module = repository.replace(/^https?:\/\//, '')
  return html`<!doctype html>
<html>
<head><meta name="go-import" content="${module} git ${repository}.git"></head>
<body>go get ${module}</body>
</html>`
}
