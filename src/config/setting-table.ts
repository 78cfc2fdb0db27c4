/** The table of the settings. Whoever adds one adds a row here; `UPDATE_DOCS=1 node test/documents.test.ts` writes the tables of the documents. */
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
  /** The default, written as in the environment. Without it, an unset setting is undefined. */
  default?: string
  /** What the setting means, for docs/configuration.md and `--help`. */
  meaning: string
}

const setting = <const Name extends string, T, R extends Row>(
  name: Name,
  kind: Kind<T>,
  row: R,
): { name: Name; kind: Kind<T>; row: R & Row } => ({ name, kind, row })

/** Every setting under its name in `Config`, in the order of docs/configuration.md. */
export const table = {
  host: setting('HOST', host, {
    default: '127.0.0.1',
    meaning: 'Address to listen on; `0.0.0.0` means every interface',
  }),
  port: setting('PORT', port, { default: '3000', meaning: 'Port of REST and git; `0` takes any free one' }),
  tlsCert: setting('TLS_CERT', file, {
    meaning:
      'Certificate for REST, git and pages (a PEM file; its chain may follow it): they are then `https` on `PORT`',
  }),
  tlsKey: setting('TLS_KEY', file, {
    meaning: 'Private key of `TLS_CERT` (a PEM file), without a passphrase',
  }),
  grpcPort: setting('GRPC_PORT', port, { default: '9090', meaning: 'Port of gRPC; `0` takes any free one' }),
  grpcTlsCert: setting('GRPC_TLS_CERT', file, {
    meaning: 'Certificate for gRPC (a PEM file; its chain may follow it); without it gRPC has no TLS',
  }),
  grpcTlsKey: setting('GRPC_TLS_KEY', file, {
    meaning: 'Private key of `GRPC_TLS_CERT` (a PEM file), without a passphrase',
  }),
  grpcMaxMessageBytes: setting('GRPC_MAX_MESSAGE_BYTES', bytes('from 32KiB to 64MiB', 2 ** 15, 2 ** 26), {
    default: '1MiB',
    meaning: 'Largest gRPC message, in and out; a call with a larger one ends with RESOURCE_EXHAUSTED',
  }),
  dataDir: setting('DATA_DIR', path('a directory'), {
    default: './data',
    meaning: 'Directory of the git repositories and embedded stores',
  }),
  publicUrl: setting('PUBLIC_URL', webUrl, {
    meaning:
      'Where clients reach the server, as `https://git.example.org`; the address it listens on if unset',
  }),
  trustProxy: setting('TRUST_PROXY', addresses, {
    meaning:
      'Proxies whose `X-Forwarded-For` counts, as `loopback` or `10.0.0.0/8,192.0.2.7`; without it every connection is its own client',
  }),
  corsOrigins: setting('CORS_ORIGINS', origins, {
    meaning:
      'Origins whose pages may use the API from a browser, as `https://app.example.org,https://cms.example.org`; none if unset',
  }),
  eventStoreUrl: setting('EVENTSTORE_URL', eventStoreUrl, {
    meaning: 'EventStoreDB or KurrentDB, as `esdb://host:2113?tls=false`; the embedded event store if unset',
  }),
  mongodbUrl: setting('MONGODB_URL', mongodbUrl, {
    meaning: 'MongoDB, as `mongodb://host:27017/mergelog`; the embedded read store if unset',
  }),
  nodeName: setting('NODE_NAME', nodeName, {
    meaning: 'Name of this node in logs and events; the host name if unset',
  }),
  startTimeoutMs: setting('START_TIMEOUT_MS', wholeNumber(0, 3_600_000), {
    default: '60000',
    meaning: 'How long a start waits for stores that do not answer, in milliseconds; then the process ends',
  }),
  drainMs: setting('DRAIN_MS', wholeNumber(0, 600_000), {
    default: '0',
    meaning:
      'How long SIGTERM lets the server answer as before, while `/healthz` is 503 already, in milliseconds',
  }),
  stopTimeoutMs: setting('STOP_TIMEOUT_MS', wholeNumber(0, 86_400_000), {
    default: '60000',
    meaning:
      'How long a stop waits for running requests after `DRAIN_MS`, in milliseconds; then their connections are closed',
  }),
  metricsToken: setting('METRICS_TOKEN', bearerToken, {
    meaning: 'Who shows it (`Authorization: Bearer …`) may read `/metrics`; without it only site admins may',
  }),
  metricsPort: setting('METRICS_PORT', port, {
    meaning: 'A port at which `/metrics` is open to everyone, and nothing else is; `0` takes any free one',
  }),
  metricsHost: setting('METRICS_HOST', host, {
    meaning: 'Address of `METRICS_PORT`; that of `HOST` if unset',
  }),
  adminPassword: setting('ADMIN_PASSWORD', password, {
    meaning: 'Password of `admin`, who is made on the first start; if unset, a random one is printed once',
  }),
  localPasswords: setting('LOCAL_PASSWORDS', onOff, {
    default: 'on',
    meaning:
      '`off`: nobody signs in with a password but `admin`; all others by `OIDC_ISSUER`, and with access tokens',
  }),
  oidcIssuer: setting('OIDC_ISSUER', issuer, {
    meaning: 'OpenID Connect provider by which people sign in on pages, as `https://id.example.org`',
  }),
  oidcClientId: setting('OIDC_CLIENT_ID', word, { meaning: 'What the provider calls this server' }),
  oidcClientSecret: setting('OIDC_CLIENT_SECRET', secret, {
    meaning: 'The secret that the provider gave this server',
  }),
  oidcScopes: setting('OIDC_SCOPES', openIdScopes, {
    default: 'openid profile email',
    meaning: 'What the provider is asked for; many need one more scope for groups',
  }),
  oidcLoginClaim: setting('OIDC_LOGIN_CLAIM', word, {
    default: 'preferred_username',
    meaning: 'Claim from which the login of a new account is made',
  }),
  oidcGroupsClaim: setting('OIDC_GROUPS_CLAIM', word, {
    default: 'groups',
    meaning: 'Claim with the groups of a person, for `OIDC_ORGANIZATIONS`',
  }),
  oidcOrganizations: setting('OIDC_ORGANIZATIONS', groupGrants, {
    meaning:
      'Which groups are members of which organizations, as `developers=acme,leads=acme:admin`; it decides all memberships in these',
  }),
  oidcLinkByEmail: setting('OIDC_LINK_BY_EMAIL', onOff, {
    default: 'off',
    meaning:
      "`on`: a person's first sign-in takes the account that has their verified e-mail address (no site admin's)",
  }),
  webhookAllowedHosts: setting('WEBHOOK_ALLOWED_HOSTS', hosts, {
    meaning:
      "Hosts in the server's own network to which webhooks may send, as `ci.internal,*.build.internal,10.1.0.0/16,loopback`; none if unset",
  }),
  logLevel: setting('LOG_LEVEL', logLevel, {
    default: 'info',
    meaning: `One of \`${LOG_LEVELS.join('`, `')}\``,
  }),
  logFormat: setting('LOG_FORMAT', logFormat, {
    meaning:
      '`json` (a line of JSON each, and nothing else in the output) or `pretty`; if unset, `pretty` on a terminal, else JSON',
  }),
  otlpEndpoint: setting('OTEL_EXPORTER_OTLP_ENDPOINT', webUrl, {
    meaning: 'Collector of OpenTelemetry that gets traces, as `http://localhost:4318`; no traces if unset',
  }),
  signingKey: setting('SIGNING_KEY', file, {
    meaning: 'Private SSH key (a file) that signs the commits of merges; they are unsigned if unset',
  }),
  allowedSigners: setting('ALLOWED_SIGNERS', file, {
    meaning:
      "File in git's allowed-signers format: it says whose signatures count on branches that require signed commits",
  }),
  maxBodyBytes: setting('MAX_BODY_BYTES', bytes('from 1KiB to 1GiB', 2 ** 10, 2 ** 30), {
    default: '4MiB',
    meaning: 'Largest JSON body; a larger one, or one with more than 10,000 values, is answered with 413',
  }),
  maxFileBodyBytes: setting('MAX_FILE_BODY_BYTES', bytes('from 1KiB to 1GiB', 2 ** 10, 2 ** 30), {
    default: '32MiB',
    meaning: 'The same with files in base64 (`contents`), which do not count for `MAX_BODY_BYTES`',
  }),
  maxConnections: setting('MAX_CONNECTIONS', wholeNumber(1, 1_000_000), {
    default: '4096',
    meaning:
      'Most connections of REST and git, and of gRPC; a further one ends the one that was idle longest, or is closed',
  }),
  maxConnectionsPerAddress: setting('MAX_CONNECTIONS_PER_ADDRESS', wholeNumber(1, 1_000_000), {
    default: '512',
    meaning:
      'The same for one address (IPv6: for one /64), and the open requests of one behind a trusted proxy',
  }),
  requestTimeoutMs: setting('REQUEST_TIMEOUT_MS', wholeNumber(100, 3_600_000), {
    default: '30000',
    meaning: 'How long the head of a request, and then its JSON, may take to arrive, in milliseconds',
  }),
  maxUnreadBytes: setting('MAX_UNREAD_BYTES', bytes('from 1MiB', 2 ** 20), {
    default: '256MiB',
    meaning:
      'Bytes of answers that wait to be read, and of bodies that arrive; an address may have a quarter',
  }),
  unreadTimeoutMs: setting('UNREAD_TIMEOUT_MS', wholeNumber(100, 3_600_000), {
    default: '60000',
    meaning: 'A client that reads nothing of its answer for this long is disconnected, in milliseconds',
  }),
  maxTextCharacters: setting('MAX_TEXT_CHARACTERS', wholeNumber(1, 393_216), {
    default: '131072',
    meaning:
      'Most characters of a text, as the body of an issue or comment; a longer one, or one of more than 384 KiB, is ' +
      'answered with 422',
  }),
  maxPushBytes: setting('MAX_PUSH_BYTES', bytes('(0 for no limit)', 0), {
    default: '4GiB',
    meaning: 'Largest git push; `0` means no limit',
  }),
  maxObjectBytes: setting('MAX_OBJECT_BYTES', bytes('(0 for no limit)', 0), {
    default: '256MiB',
    meaning: 'Largest object in a git push, such as a file, before compression; `0` means no limit',
  }),
  maxPushRefs: setting('MAX_PUSH_REFS', wholeNumber(1, 100_000), {
    default: '10000',
    meaning: 'Most branches, tags and other refs that one push may change',
  }),
  gitReadSlots: setting('GIT_READ_SLOTS', wholeNumber(1, 1000), {
    default: '16',
    meaning:
      'Clones, fetches, archives and large files at the same time; one account or address has a quarter of them, the others wait',
  }),
  gitPushSlots: setting('GIT_PUSH_SLOTS', wholeNumber(1, 1000), {
    default: '8',
    meaning: 'The same for pushes',
  }),
  gitDiffSlots: setting('GIT_DIFF_SLOTS', wholeNumber(1, 1000), {
    default: '4',
    meaning: 'The same for the commits, files and diffs of pull requests',
  }),
  gitMemoryBytes: setting('GIT_MEMORY_BYTES', bytes('from 32MiB', 2 ** 25), {
    default: '1GiB',
    meaning: 'Most memory of one git process; a push or a diff that needs more is refused',
  }),
  gitTimeoutMs: setting('GIT_TIMEOUT_MS', wholeNumber(1, 86_400_000), {
    default: '600000',
    meaning: 'How long git may work on one clone or push, in milliseconds, without the time of the client',
  }),
  gitDiffTimeoutMs: setting('GIT_DIFF_TIMEOUT_MS', wholeNumber(1, 86_400_000), {
    default: '20000',
    meaning:
      'The same for the commits, files or diff of a pull request; what takes longer is answered with 422',
  }),
  gitGraceMs: setting('GIT_GRACE_MS', wholeNumber(1, 86_400_000), {
    default: '30000',
    meaning: 'How slow a git client may be at first, in milliseconds; after that `GIT_MIN_RATE_BYTES` counts',
  }),
  gitMinRateBytes: setting('GIT_MIN_RATE_BYTES', bytes('from 1', 1), {
    default: '4KiB',
    meaning: 'How much a git client must send or read in a second, on average; a slower one is disconnected',
  }),
  attachmentMaxBytes: setting('ATTACHMENT_MAX_BYTES', bytes('from 1', 1), {
    default: '2GiB',
    meaning: 'Largest file of a comment, issue or release; a larger one is answered with 413',
  }),
  attachmentAllowedTypes: setting('ATTACHMENT_ALLOWED_TYPES', fileTypes, {
    default:
      '.avif,.cpuprofile,.csv,.dmp,.docx,.fodg,.fodp,.fods,.fodt,.gif,.gz,.jpeg,.jpg,.json,.jsonc,.log,.md,.mov,.mp4,.odf,.odg,.odp,.ods,.odt,.patch,.pdf,.png,.pptx,.svg,.tgz,.txt,.webm,.webp,.xls,.xlsx,.zip',
    meaning:
      'Files that comments and issues may have: endings (`.zip`), media types (`text/plain`) or families of them (`image/*`); `*/*` means all',
  }),
  releaseAllowedTypes: setting('RELEASE_ALLOWED_TYPES', fileTypes, {
    default: '*/*',
    meaning: 'Files that releases may have, in the same form; by default all, as in Gitea',
  }),
  lfsMaxBytes: setting('LFS_MAX_BYTES', bytes('from 1', 1), {
    default: '8GiB',
    meaning: 'Largest object of git LFS; a larger one is refused with 422',
  }),
  autoWatchNewRepos: setting('AUTO_WATCH_NEW_REPOS', onOff, {
    default: 'on',
    meaning:
      'Whether who creates a repository watches it, and so hears of what others do in it: `on` or `off`',
  }),
  maintenance: setting('MAINTENANCE', onOff, {
    default: 'on',
    meaning: 'Whether git repositories are repacked in the background: `on` or `off`',
  }),
  minFreeBytes: setting('MIN_FREE_BYTES', bytes('(0 for no reserve)', 0), {
    default: '128MiB',
    meaning:
      'Room that pushes, attachments, forks and new repositories leave free on each disk of `DATA_DIR`, and 1,000 more files; they get 507 without it. `0` means none',
  }),
  maxOwnerBytes: setting('MAX_OWNER_BYTES', bytes('(0 for no limit)', 0), {
    default: '0',
    meaning:
      'What the repositories of one user or organization may take on disk, with their attachments; `0` means no limit',
  }),
  pageLimitDefault: setting('PAGE_LIMIT_DEFAULT', wholeNumber(1, 1000), {
    default: '30',
    meaning: 'Rows of a list page when `limit` is not given',
  }),
  pageLimitMax: setting('PAGE_LIMIT_MAX', wholeNumber(1, 1000), {
    default: '50',
    meaning: 'Maximum rows of a list page',
  }),
  projectionWaitMs: setting('PROJECTION_WAIT_MS', wholeNumber(0, 600_000), {
    default: '5000',
    meaning: 'How long a command waits for queries to show its change, in milliseconds',
  }),
  readTimeoutMs: setting('READ_TIMEOUT_MS', wholeNumber(1, 3_600_000), {
    default: '10000',
    meaning:
      'How long the embedded read store may search or count for one answer, in milliseconds; what takes longer is answered with 422',
  }),
  maxDiffLines: setting('MAX_DIFF_LINES', wholeNumber(1, 10_000_000), {
    default: '20000',
    meaning: 'At most this many added and deleted lines of a changed file are counted',
  }),
  maxDiffFiles: setting('MAX_DIFF_FILES', wholeNumber(1, 100_000), {
    default: '3000',
    meaning:
      'At most this many changed files of a pull request, and of a commit, are listed; the header `Mergelog-Truncated` ' +
      'says that more are there',
  }),
  maxDiffLineCharacters: setting('MAX_DIFF_LINE_CHARACTERS', wholeNumber(1, 1_000_000), {
    default: '5000',
    meaning: 'At most this many bytes of one changed line are held while lines are counted',
  }),
}

export type SettingName = (typeof table)[keyof typeof table]['name']

/** The settings as the documents and `--help` show them. */
export const settings = Object.values(table).map(({ name, row: { default: standard = '', meaning } }) => ({
  name,
  default: standard,
  meaning,
}))
