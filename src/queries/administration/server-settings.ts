/** Public information for clients: version and settings. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { Type } from 'typebox'
import { MAX_CONTENT_BYTES } from '../../api/contents/contents-at.ts'
import { TREE_PAGE } from '../../api/contents/git-objects.ts'
import { ALLOWED_REACTIONS } from '../../api/reactions/reactions.ts'
import type { Routes } from '../../auth/routes.ts'
import type { Services } from '../../services/services.ts'
import { VERSION } from '../../storage/version.ts'

/** The Gitea version whose API this implements. Clients select features by it. */
const GITEA = '1.24.0'

const Version = Type.Object({
  version: Type.String({ description: 'Version of Gitea whose API this is' }),
  mergelog: Type.String({ description: 'Version of Mergelog' }),
})

const ApiSettings = Type.Object({
  max_response_items: Type.Integer(),
  default_paging_num: Type.Integer(),
  default_git_trees_per_page: Type.Integer(),
  default_max_blob_size: Type.Integer(),
})

const UiSettings = Type.Object({
  default_theme: Type.String(),
  allowed_reactions: Type.Array(Type.String()),
  custom_emojis: Type.Array(Type.String()),
})

const RepositorySettings = Type.Object({
  mirrors_disabled: Type.Boolean(),
  http_git_disabled: Type.Boolean(),
  migrations_disabled: Type.Boolean(),
  stars_disabled: Type.Boolean(),
  time_tracking_disabled: Type.Boolean(),
  lfs_disabled: Type.Boolean(),
})

const AttachmentSettings = Type.Object({
  enabled: Type.Boolean(),
  allowed_types: Type.String(),
  max_size: Type.Integer({ description: 'Maximum size of a file, in MiB' }),
  max_files: Type.Integer({ description: 'Maximum number of files of a request' }),
})

const MIB = 1024 * 1024

/** The format of http:nodeinfo.diaspora.software. */
const NodeInfo = Type.Object({
  version: Type.String(),
  software: Type.Object({ name: Type.String(), version: Type.String() }),
  protocols: Type.Array(Type.String()),
  services: Type.Object({ inbound: Type.Array(Type.String()), outbound: Type.Array(Type.String()) }),
  openRegistrations: Type.Boolean(),
  usage: Type.Object({ users: Type.Object({ total: Type.Integer() }) }),
  metadata: Type.Object({}),
})
const NODE_INFO_VERSION = '2.1'

/** `GET /.well-known/nodeinfo` links to the description of this server, as the standard requires. */
export const wellKnownRoutes: Routes =
  ({ publicUrl }) =>
  async (app) => {
    app.get('/.well-known/nodeinfo', { schema: { hide: true } }, async () => ({
      links: [
        {
          rel: `http://nodeinfo.diaspora.software/ns/schema/${NODE_INFO_VERSION}`,
          href: `${publicUrl()}/api/v1/nodeinfo`,
        },
      ],
    }))
  }

export function serverSettingsRoutes({ config, views }: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    // An access token needs no scope for these.
    const open = { scope: [] } as const
    const tags = ['settings']

    app.get('/version', { config: open, schema: { tags, response: { 200: Version } } }, async () => ({
      version: GITEA,
      mergelog: VERSION,
    }))

    app.get('/nodeinfo', { config: open, schema: { tags, response: { 200: NodeInfo } } }, async () => ({
      version: NODE_INFO_VERSION,
      software: { name: 'mergelog', version: VERSION },
      protocols: [],
      services: { inbound: [], outbound: [] },
      openRegistrations: false,
      usage: { users: { total: await views.accounts.count({ kind: 'user', deleted: false }) } },
      metadata: {},
    }))

    app.get(
      '/settings/api',
      { config: open, schema: { tags, response: { 200: ApiSettings } } },
      async () => ({
        max_response_items: config.pageLimitMax,
        default_paging_num: config.pageLimitDefault,
        default_git_trees_per_page: TREE_PAGE,
        default_max_blob_size: MAX_CONTENT_BYTES,
      }),
    )

    app.get('/settings/ui', { config: open, schema: { tags, response: { 200: UiSettings } } }, async () => ({
      default_theme: '',
      allowed_reactions: [...ALLOWED_REACTIONS],
      custom_emojis: [],
    }))

    app.get(
      '/settings/repository',
      { config: open, schema: { tags, response: { 200: RepositorySettings } } },
      async () => ({
        mirrors_disabled: true,
        http_git_disabled: false,
        migrations_disabled: true,
        stars_disabled: false,
        time_tracking_disabled: true,
        lfs_disabled: false,
      }),
    )

    app.get(
      '/settings/attachment',
      { config: open, schema: { tags, response: { 200: AttachmentSettings } } },
      async () => ({
        enabled: true,
        allowed_types: config.attachmentAllowedTypes.join(','),
        max_size: Math.floor(config.attachmentMaxBytes / MIB),
        max_files: 1,
      }),
    )
  }
}
