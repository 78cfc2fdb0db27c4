/** Renders markdown: `/markdown`, `/markdown/raw` and `/markup`. The HTML is safe to show. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { clientOf, signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import type { Markdown } from '../../domain/markup/render.ts'
import { renderInThread } from '../../domain/markup/renderer.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { contentPolicy } from '../../http/answers/page-headers.ts'

/** Gitea's modes. In talk, line breaks are kept, and references lead to the repository of `Context`. */
const MODES: Readonly<Record<string, 'talk' | 'document'>> = {
  '': 'document',
  markdown: 'document',
  gfm: 'talk',
  comment: 'talk',
  wiki: 'document',
  file: 'document',
}

/** Names of files that are rendered. */
const MARKDOWN_FILE = /\.(?:md|markdown|mdown|mkd|livemd)$/i

/** The repository in `Context`: `owner/name`, `/owner/name/src/branch/main`, or an address of this server. */
function repositoryIn(context: string, site: string): string | null {
  const path = context.startsWith(`${site}/`) ? context.slice(site.length) : context
  const [, owner, name] = /^\/?([\w.-]{1,100})\/([\w.-]{1,100})(?:\/|$)/.exec(path) ?? []
  return owner === undefined ? null : `${owner}/${name}`
}

const HTML = {
  200: { description: 'Safe HTML', content: { 'text/html': { schema: Type.String() } } },
}

export const markupRoutes: Routes = (services) => {
  const Text = Type.String({ maxLength: services.config.maxTextCharacters })
  const Option = {
    Text: Type.Optional(Text),
    Mode: Type.Optional(Type.String({ maxLength: 64 })),
    Context: Type.Optional(Type.String({ maxLength: 2048 })),
    Wiki: Type.Optional(Type.Boolean()),
  }

  async function send(request: FastifyRequest, reply: FastifyReply, markdown: Omit<Markdown, 'site'>) {
    const site = services.publicUrl()
    const html = await renderInThread(clientOf(request), { ...markdown, site })
    return reply
      .header('Content-Security-Policy', contentPolicy())
      .type('text/html; charset=utf-8')
      .send(html)
  }

  const contextOf = (context = '') => repositoryIn(context, services.publicUrl())

  return async (app) => {
    // Rendering is expensive, so it requires a sign-in, as in Gitea.
    app.addHook('preHandler', async (request) => void signedIn(request))
    app.post(
      '/markdown',
      route('misc', { body: Type.Object(Option, { title: 'MarkdownOption' }), response: HTML }),
      async (request, reply) => {
        const { Text: text = '', Mode: mode = '', Context: context } = request.body
        // As in Gitea, an unknown mode is plain markdown.
        const isTalk = MODES[mode] === 'talk'
        return send(request, reply, {
          text,
          hardBreaks: isTalk,
          repository: isTalk ? contextOf(context) : null,
        })
      },
    )

    app.post(
      '/markup',
      route('misc', {
        body: Type.Object(
          { ...Option, FilePath: Type.Optional(Type.String({ maxLength: 2048 })) },
          { title: 'MarkupOption' },
        ),
        response: HTML,
      }),
      async (request, reply) => {
        const { Text: text = '', Mode: mode = '', Context: context, FilePath: path = '' } = request.body
        if (!Object.hasOwn(MODES, mode)) throw new Refused(refuse.unprocessable(`Mode: '${mode}' is unknown`))
        if (mode === 'file' && !MARKDOWN_FILE.test(path)) {
          throw new Refused(refuse.unprocessable(`FilePath: only files of markdown are rendered`))
        }
        const isPlain = mode === '' || mode === 'markdown'
        return send(request, reply, {
          text,
          hardBreaks: MODES[mode] === 'talk',
          repository: isPlain ? null : contextOf(context),
        })
      },
    )

    // Only this route accepts plain text.
    const textRoutes: FastifyPluginAsyncTypebox = async (raw) => {
      raw.addContentTypeParser('text/plain', { parseAs: 'string' }, (_request, text, done) =>
        done(null, text),
      )
      raw.post(
        '/markdown/raw',
        route('misc', { body: Text, consumes: ['text/plain'], response: HTML }),
        async (request, reply) => {
          return send(request, reply, { text: request.body, hardBreaks: false, repository: null })
        },
      )
    }
    await app.register(textRoutes)
  }
}
