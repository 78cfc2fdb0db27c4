/** A pull request as a diff or a patch: `GET /repos/{owner}/{repo}/pulls/{index}.diff` and `….patch`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { diffText } from '../git/diff.ts'
import { clientGone } from '../http/client-gone.ts'
import { FlagQuery, flagOf } from '../http/flag.ts'
import { Refused, refuse } from '../refusal.ts'
import type { Services } from '../services.ts'
import { PullParams } from '../wire/pulls.ts'
import { askGit, pullInGit } from './pull-git.ts'

const DiffParams = Type.Object({ ...PullParams.properties, diffType: Type.String() })

export function pullDiffRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/repos/:owner/:repo/pulls/:index.:diffType',
      {
        schema: {
          tags: ['repository'],
          params: DiffParams,
          querystring: Type.Object({
            binary: FlagQuery('whether the diff contains binary files; a patch always contains them'),
          }),
          produces: ['text/plain'],
        },
      },
      async (request, reply) => {
        const { diffType: kind } = request.params
        if (kind !== 'diff' && kind !== 'patch')
          throw new Refused(refuse.notFound('the path must end with .diff or .patch'))
        const { pull, dir } = await pullInGit(services, request)
        const binary = flagOf(request.query.binary, false)
        const from = pull.mergeBase
        const to = pull.head.sha
        // A weak tag, because another version of git may write the same differences as another text.
        const tag = `W/"${from}-${to}.${kind}${binary ? '.binary' : ''}"`
        reply.headers({ ETag: tag, 'Cache-Control': 'private, no-cache' })
        if (matches(request.headers['if-none-match'], tag)) return reply.code(304).send()

        const signal = clientGone(reply)
        try {
          const text = await askGit(request, () => diffText(dir, from, to, { kind, binary, signal }))
          return reply.type('text/plain; charset=utf-8').send(text)
        } catch (error) {
          if (signal.aborted) return reply.hijack()
          reply.removeHeader('ETag')
          throw error
        }
      },
    )
  }
}

/** Whether `tag` matches this `If-None-Match` header. */
function matches(header: string | undefined, tag: string): boolean {
  if (header === undefined) return false
  const weak = (text: string) => text.trim().replace(/^W\//, '')
  return header.trim() === '*' || header.split(',').some((known) => weak(known) === weak(tag))
}
