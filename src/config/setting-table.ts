/** The table of settings. Add a setting here; `UPDATE_DOCS=1 node test/documents.test.ts` writes the tables of the documents. */
import {
  addresses,
  bearerToken,
  bytes,
  eventStoreUrl,
  file,
  fileTypes,
  groupGrants,
  host,
  hosts,
  issuer,
  type Kind,
  LOG_LEVELS,
  logFormat,
  logLevel,
  mongodbUrl,
  nodeName,
  onOff,
  openIdScopes,
  origins,
  password,
  path,
  port,
  secret,
  webUrl,
  wholeNumber,
  word,
} from './setting-kinds.ts'

interface Row {
  /** The default, as in the environment. Without it, an unset setting is undefined. */
  default?: string
  /** Description, for docs/configuration.md and `--help`. */
  meaning: string
}

const setting = <const Name extends string, T, R extends Row>(
  name: Name,
  kind: Kind<T>,
  row: R,
): { name: Name; kind: Kind<T>; row: R & Row } => ({ name, kind, row })

/** All settings by their names in `Config`, in the order of docs/configuration.md. */
export const table = {
  host: setting('HOST', host, {
    default: '127.0.0.1',
    meaning: 'Address to listen on; `0.0.0.0` means every interface',
  }),
  port: setting('PORT', port, { default: '3000', meaning: 'Port of REST and git; `0` takes any free one' }),
  tlsCert: setting('TLS_CERT', file, {
    meaning:
      'Certificate (a PEM file, optionally with its chain) for REST, git and pages; `PORT` is then `https`',
  }),
  tlsKey: setting('TLS_KEY', file, {
    meaning: 'Private key of `TLS_CERT` (a PEM file), without a passphrase',
  }),
  grpcPort: setting('GRPC_PORT', port, { default: '9090', meaning: 'Port of gRPC; `0` takes any free one' }),
  grpcTlsCert: setting('GRPC_TLS_CERT', file, {
    meaning: 'Certificate for gRPC (a PEM file, optionally with its chain); without it gRPC has no TLS',
  }),
  grpcTlsKey: setting('GRPC_TLS_KEY', file, {
    meaning: 'Private key of `GRPC_TLS_CERT` (a PEM file), without a passphrase',
  }),
  grpcMaxMessageBytes: setting('GRPC_MAX_MESSAGE_BYTES', bytes('from 32KiB to 64MiB', 2 ** 15, 2 ** 26), {
    default: '1MiB',
    meaning: 'Maximum size of a gRPC message; larger ones end the call with RESOURCE_EXHAUSTED',
  }),
  dataDir: setting('DATA_DIR', path('a directory'), {
    default: './data',
    meaning: 'Directory of the git repositories and embedded stores',
  }),
  publicUrl: setting('PUBLIC_URL', webUrl, {
    meaning:
      'URL at which clients reach the server, such as `https://git.example.org`; the listening address if unset',
  }),
  trustProxy: setting('TRUST_PROXY', addresses, {
    meaning:
      'Proxies whose `X-Forwarded-For` is trusted, such as `loopback` or `10.0.0.0/8,192.0.2.7`; none if unset',
  }),
  corsOrigins: setting('CORS_ORIGINS', origins, {
    meaning:
      'Origins whose pages may use the API from a browser, such as `https://app.example.org,https://cms.example.org`; none if unset',
  }),
  eventStoreUrl: setting('EVENTSTORE_URL', eventStoreUrl, {
    meaning:
      'EventStoreDB or KurrentDB, such as `esdb://host:2113?tls=false`; the embedded event store if unset',
  }),
  mongodbUrl: setting('MONGODB_URL', mongodbUrl, {
    meaning: 'MongoDB, such as `mongodb://host:27017/mergelog`; the embedded read store if unset',
  }),
  nodeName: setting('NODE_NAME', nodeName, {
    meaning: 'Name of this node in logs and events; the host name if unset',
  }),
  startTimeoutMs: setting('START_TIMEOUT_MS', wholeNumber(0, 3_600_000), {
    default: '60000',
    meaning: 'How long a start waits for stores before the process ends, in milliseconds',
  }),
  drainMs: setting('DRAIN_MS', wholeNumber(0, 600_000), {
    default: '0',
    meaning: 'Time after SIGTERM in which `/healthz` is 503 and requests are still answered, in milliseconds',
  }),
  stopTimeoutMs: setting('STOP_TIMEOUT_MS', wholeNumber(0, 86_400_000), {
    default: '60000',
    meaning:
      'Time for running requests to complete after `DRAIN_MS`, in milliseconds; then their connections are closed',
  }),
  metricsToken: setting('METRICS_TOKEN', bearerToken, {
    meaning: 'Bearer token for `/metrics`; if unset, only site admins may read it',
  }),
  metricsPort: setting('METRICS_PORT', port, {
    meaning: 'Separate port that serves only `/metrics`, without authentication; `0` takes any free one',
  }),
  metricsHost: setting('METRICS_HOST', host, {
    meaning: 'Address of `METRICS_PORT`; `HOST` if unset',
  }),
  adminPassword: setting('ADMIN_PASSWORD', password, {
    meaning: 'Password of `admin`, which the first start creates; if unset, a random one is printed once',
  }),
  localPasswords: setting('LOCAL_PASSWORDS', onOff, {
    default: 'on',
    meaning:
      '`off`: only `admin` may sign in with a password; other users need `OIDC_ISSUER` or access tokens',
  }),
  oidcIssuer: setting('OIDC_ISSUER', issuer, {
    meaning: 'OpenID Connect provider for sign-in on pages, such as `https://id.example.org`',
  }),
  oidcClientId: setting('OIDC_CLIENT_ID', word, { meaning: 'Client id of this server at the provider' }),
  oidcClientSecret: setting('OIDC_CLIENT_SECRET', secret, {
    meaning: 'Client secret of this server at the provider',
  }),
  oidcScopes: setting('OIDC_SCOPES', openIdScopes, {
    default: 'openid profile email',
    meaning: 'Requested scopes; many providers need one more for groups',
  }),
  oidcLoginClaim: setting('OIDC_LOGIN_CLAIM', word, {
    default: 'preferred_username',
    meaning: 'Claim for the login of a new account',
  }),
  oidcGroupsClaim: setting('OIDC_GROUPS_CLAIM', word, {
    default: 'groups',
    meaning: 'Claim with the groups of a user, for `OIDC_ORGANIZATIONS`',
  }),
  oidcOrganizations: setting('OIDC_ORGANIZATIONS', groupGrants, {
    meaning:
      'Groups and their organizations, such as `developers=acme,leads=acme:admin`; each sign-in sets the memberships in these',
  }),
  oidcLinkByEmail: setting('OIDC_LINK_BY_EMAIL', onOff, {
    default: 'off',
    meaning:
      '`on`: the first sign-in links the existing account with the same verified e-mail address, except site admins',
  }),
  webhookAllowedHosts: setting('WEBHOOK_ALLOWED_HOSTS', hosts, {
    meaning:
      'Hosts in internal networks to which webhooks may send, such as `ci.internal,*.build.internal,10.1.0.0/16,loopback`; none if unset',
  }),
  logLevel: setting('LOG_LEVEL', logLevel, {
    default: 'info',
    meaning: `One of \`${LOG_LEVELS.join('`, `')}\``,
  }),
  logFormat: setting('LOG_FORMAT', logFormat, {
    meaning: '`json` (only lines of JSON) or `pretty`; if unset, `pretty` on a terminal, otherwise JSON',
  }),
  otlpEndpoint: setting('OTEL_EXPORTER_OTLP_ENDPOINT', webUrl, {
    meaning: 'OpenTelemetry collector for traces, such as `http://localhost:4318`; no traces if unset',
  }),
  signingKey: setting('SIGNING_KEY', file, {
    meaning: 'Private SSH key (a file) that signs the commits of merges; they are unsigned if unset',
  }),
  allowedSigners: setting('ALLOWED_SIGNERS', file, {
    meaning:
      "File in git's allowed-signers format: the trusted signers for branches that require signed commits",
  }),
  logSigningKey: setting('LOG_SIGNING_KEY', file, {
    meaning:
      'Private Ed25519 key (a PEM file) that signs a checkpoint of the log every hour; none are signed if unset. Needs `PUBLIC_URL`',
  }),
  maxBodyBytes: setting('MAX_BODY_BYTES', bytes('from 1KiB to 1GiB', 2 ** 10, 2 ** 30), {
    default: '4MiB',
    meaning: 'Maximum size of a JSON body; larger ones, or more than 10,000 values, get 413',
  }),
  maxFileBodyBytes: setting('MAX_FILE_BODY_BYTES', bytes('from 1KiB to 1GiB', 2 ** 10, 2 ** 30), {
    default: '32MiB',
    meaning:
      'Maximum size of a JSON body with base64 files (`contents`); the files do not count for `MAX_BODY_BYTES`',
  }),
  maxConnections: setting('MAX_CONNECTIONS', wholeNumber(1, 1_000_000), {
    default: '4096',
    meaning:
      'Maximum number of connections, for REST with git and for gRPC; a further one evicts the longest idle one, or is closed',
  }),
  maxConnectionsPerAddress: setting('MAX_CONNECTIONS_PER_ADDRESS', wholeNumber(1, 1_000_000), {
    default: '512',
    meaning:
      'Maximum number of connections per address (IPv6: per /64), and of open requests behind a trusted proxy',
  }),
  requestTimeoutMs: setting('REQUEST_TIMEOUT_MS', wholeNumber(100, 3_600_000), {
    default: '30000',
    meaning: 'Time for the head of a request to arrive, and then for its JSON, in milliseconds',
  }),
  maxUnreadBytes: setting('MAX_UNREAD_BYTES', bytes('from 1MiB', 2 ** 20), {
    default: '256MiB',
    meaning: 'Maximum size of unread answers and of arriving bodies; an address may use a quarter',
  }),
  unreadTimeoutMs: setting('UNREAD_TIMEOUT_MS', wholeNumber(100, 3_600_000), {
    default: '60000',
    meaning: 'Time without reading after which a client is disconnected, in milliseconds',
  }),
  maxTextCharacters: setting('MAX_TEXT_CHARACTERS', wholeNumber(1, 393_216), {
    default: '131072',
    meaning:
      'Maximum length of a text, in characters, such as the body of an issue; longer ones, or more than 384 KiB, get 422',
  }),
  maxPushBytes: setting('MAX_PUSH_BYTES', bytes('(0 for no limit)', 0), {
    default: '4GiB',
    meaning: 'Maximum size of a git push; `0` means no limit',
  }),
  maxObjectBytes: setting('MAX_OBJECT_BYTES', bytes('(0 for no limit)', 0), {
    default: '256MiB',
    meaning: 'Maximum size of an object in a git push, before compression; `0` means no limit',
  }),
  maxPushRefs: setting('MAX_PUSH_REFS', wholeNumber(1, 100_000), {
    default: '10000',
    meaning: 'Maximum number of refs that one push may change',
  }),
  gitReadSlots: setting('GIT_READ_SLOTS', wholeNumber(1, 1000), {
    default: '16',
    meaning:
      'Concurrent clones, fetches, archives and large files; one account or address may use a quarter, further ones queue',
  }),
  gitPushSlots: setting('GIT_PUSH_SLOTS', wholeNumber(1, 1000), {
    default: '8',
    meaning: 'Concurrent pushes, with the same shares',
  }),
  gitDiffSlots: setting('GIT_DIFF_SLOTS', wholeNumber(1, 1000), {
    default: '4',
    meaning: 'Concurrent reads of commits, files and diffs of pull requests, with the same shares',
  }),
  gitMemoryBytes: setting('GIT_MEMORY_BYTES', bytes('from 32MiB', 2 ** 25), {
    default: '1GiB',
    meaning: 'Maximum memory of one git process; a push or diff that needs more is refused',
  }),
  gitTimeoutMs: setting('GIT_TIMEOUT_MS', wholeNumber(1, 86_400_000), {
    default: '600000',
    meaning:
      'Maximum working time of git for one clone or push, in milliseconds, without waiting for the client',
  }),
  gitDiffTimeoutMs: setting('GIT_DIFF_TIMEOUT_MS', wholeNumber(1, 86_400_000), {
    default: '20000',
    meaning:
      'Maximum working time of git for commits, files or a diff of a pull request, in milliseconds; longer gets 422',
  }),
  gitGraceMs: setting('GIT_GRACE_MS', wholeNumber(1, 86_400_000), {
    default: '30000',
    meaning: 'Time in which a git client may be slow, in milliseconds; then `GIT_MIN_RATE_BYTES` applies',
  }),
  gitMinRateBytes: setting('GIT_MIN_RATE_BYTES', bytes('from 1', 1), {
    default: '4KiB',
    meaning: 'Minimum average rate of a git client, in bytes per second; slower ones are disconnected',
  }),
  attachmentMaxBytes: setting('ATTACHMENT_MAX_BYTES', bytes('from 1', 1), {
    default: '2GiB',
    meaning: 'Maximum size of a file of a comment, issue or release; larger ones get 413',
  }),
  attachmentAllowedTypes: setting('ATTACHMENT_ALLOWED_TYPES', fileTypes, {
    default:
      '.avif,.cpuprofile,.csv,.dmp,.docx,.fodg,.fodp,.fods,.fodt,.gif,.gz,.jpeg,.jpg,.json,.jsonc,.log,.md,.mov,.mp4,.odf,.odg,.odp,.ods,.odt,.patch,.pdf,.png,.pptx,.svg,.tgz,.txt,.webm,.webp,.xls,.xlsx,.zip',
    meaning:
      'Permitted files of comments and issues: endings (`.zip`), media types (`text/plain`) or families (`image/*`); `*/*` means all',
  }),
  releaseAllowedTypes: setting('RELEASE_ALLOWED_TYPES', fileTypes, {
    default: '*/*',
    meaning: 'Permitted files of releases, in the same form',
  }),
  lfsMaxBytes: setting('LFS_MAX_BYTES', bytes('from 1', 1), {
    default: '8GiB',
    meaning: 'Maximum size of a git LFS object; larger ones get 422',
  }),
  autoWatchNewRepos: setting('AUTO_WATCH_NEW_REPOS', onOff, {
    default: 'on',
    meaning: 'Whether the creator of a repository watches it: `on` or `off`',
  }),
  maintenance: setting('MAINTENANCE', onOff, {
    default: 'on',
    meaning: 'Whether git repositories are repacked in the background: `on` or `off`',
  }),
  keepHistoryObjects: setting('KEEP_HISTORY_OBJECTS', onOff, {
    default: 'off',
    meaning:
      'Whether git keeps the commits that the log names after branches, tags and pull requests have left them: `on` or `off`. With `on`, past moments stay complete, and repositories only grow',
  }),
  minFreeBytes: setting('MIN_FREE_BYTES', bytes('(0 for no reserve)', 0), {
    default: '128MiB',
    meaning:
      'Free space, with 1,000 free files, that pushes, attachments, forks and new repositories must leave on each disk of `DATA_DIR`; otherwise they get 507. `0` means none',
  }),
  maxOwnerBytes: setting('MAX_OWNER_BYTES', bytes('(0 for no limit)', 0), {
    default: '0',
    meaning: 'Disk quota of one owner: repositories and attachments; `0` means no limit',
  }),
  pageLimitDefault: setting('PAGE_LIMIT_DEFAULT', wholeNumber(1, 1000), {
    default: '30',
    meaning: 'Rows of a list page without `limit`',
  }),
  pageLimitMax: setting('PAGE_LIMIT_MAX', wholeNumber(1, 1000), {
    default: '50',
    meaning: 'Maximum rows of a list page',
  }),
  projectionWaitMs: setting('PROJECTION_WAIT_MS', wholeNumber(0, 600_000), {
    default: '5000',
    meaning: 'Time that a command waits until queries show its change, in milliseconds',
  }),
  readTimeoutMs: setting('READ_TIMEOUT_MS', wholeNumber(1, 3_600_000), {
    default: '10000',
    meaning:
      'Maximum time of the embedded read store for one search or count, in milliseconds; longer gets 422',
  }),
  maxDiffLines: setting('MAX_DIFF_LINES', wholeNumber(1, 10_000_000), {
    default: '20000',
    meaning: 'Maximum number of added and deleted lines that are counted in a changed file',
  }),
  maxDiffFiles: setting('MAX_DIFF_FILES', wholeNumber(1, 100_000), {
    default: '3000',
    meaning:
      'Maximum number of listed files of a pull request or commit; `Mergelog-Truncated` marks a shortened list',
  }),
  maxDiffLineCharacters: setting('MAX_DIFF_LINE_CHARACTERS', wholeNumber(1, 1_000_000), {
    default: '5000',
    meaning: 'Maximum bytes of a changed line in memory while lines are counted',
  }),
}

export type SettingName = (typeof table)[keyof typeof table]['name']

/** The settings for the documents and `--help`. */
export const settings = Object.values(table).map(({ name, row: { default: standard = '', meaning } }) => ({
  name,
  default: standard,
  meaning,
}))
