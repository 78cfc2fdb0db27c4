/** Each setting: its default, its valid and its invalid values. */
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import t from 'tap'
import { type Config, loadConfig } from '../../src/config/config.ts'
import { type SettingName, settings } from '../../src/config/setting-table.ts'
import { refusal } from '../refused-config.ts'

interface Case {
  key: keyof Config
  unset: unknown
  /** Other settings that must be set together with this one. */
  beside?: NodeJS.ProcessEnv
  /** Texts in the environment, and the values in the config. */
  valid: [string, unknown][]
  /** Texts in the environment, and the required words of the error. */
  invalid: [string, RegExp][]
}

const wholeNumber = /must be a whole number from/
const eventStore =
  /must be a connection string that begins with esdb:\/\/, esdb\+discover:\/\/, kurrentdb:\/\/ or/
const eventStoreHost = /has a host that is not written as name or name:port/
const mustEncode = /has a user or a password with a character that must be percent-encoded: % as %25/
const mongodb = /must be a connection string that begins with mongodb:\/\/ or mongodb\+srv:\/\//
const web = /must be an http:\/\/ or https:\/\/ URL without .*trailing slash/

/** Required settings of a provider of OpenID Connect. */
const OIDC = {
  OIDC_ISSUER: 'https://id.example.org',
  OIDC_CLIENT_ID: 'mergelog',
  OIDC_CLIENT_SECRET: 'a client secret',
}

const cases: Record<SettingName, Case> = {
  NODE_NAME: {
    key: 'nodeName',
    unset: hostname(),
    valid: [
      ['a', 'a'],
      ['mergelog-7d9f8-x2k4p', 'mergelog-7d9f8-x2k4p'],
      ['Node_1.example.org', 'Node_1.example.org'],
      ['n'.repeat(64), 'n'.repeat(64)],
    ],
    invalid: [
      ['n'.repeat(65), /must be 1 to 64 letters, digits, dots, hyphens and underscores/],
      ['two words', /with a letter or a digit first/],
      ['-a', /with a letter or a digit first/],
      ['knoten\n', /is "knoten\\n", but must be/],
      ['größe', /must be 1 to 64 letters/],
    ],
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    key: 'otlpEndpoint',
    unset: undefined,
    valid: [['http://localhost:4318', 'http://localhost:4318']],
    invalid: [['localhost:4318', web]],
  },
  LOG_FORMAT: {
    key: 'logFormat',
    unset: undefined,
    valid: [
      ['json', 'json'],
      ['pretty', 'pretty'],
    ],
    invalid: [['JSON', /must be one of json, pretty/]],
  },
  METRICS_TOKEN: {
    key: 'metricsToken',
    unset: undefined,
    valid: [['0123456789abcdef', '0123456789abcdef']],
    invalid: [
      ['0123456789abcde', /is "\(15 characters\)", but must be 16 to 512 letters, digits/],
      ['0123456789 abcdef', /letters, digits/],
    ],
  },
  METRICS_PORT: {
    key: 'metricsPort',
    unset: undefined,
    valid: [
      ['0', 0],
      ['9464', 9464],
    ],
    invalid: [
      ['65536', wholeNumber],
      ['3000', /is "3000", but must differ from PORT and GRPC_PORT/],
    ],
  },
  METRICS_HOST: {
    key: 'metricsHost',
    unset: undefined,
    valid: [['0.0.0.0', '0.0.0.0']],
    invalid: [['a b', /host name/]],
  },
  AUTO_WATCH_NEW_REPOS: {
    key: 'autoWatchNewRepos',
    unset: true,
    valid: [
      ['on', true],
      ['off', false],
    ],
    invalid: [['yes', /is "yes", but must be on or off/]],
  },
  KEEP_HISTORY_OBJECTS: {
    key: 'keepHistoryObjects',
    unset: false,
    valid: [
      ['on', true],
      ['off', false],
    ],
    invalid: [['yes', /is "yes", but must be on or off/]],
  },
  MAINTENANCE: {
    key: 'maintenance',
    unset: true,
    valid: [
      ['on', true],
      ['off', false],
    ],
    invalid: [['yes', /is "yes", but must be on or off/]],
  },
  MIN_FREE_BYTES: {
    key: 'minFreeBytes',
    unset: 128 * 1024 ** 2,
    valid: [
      ['0', 0],
      ['1GiB', 1024 ** 3],
    ],
    invalid: [['-1', /must be a number of bytes \(0 for no reserve\)/]],
  },
  MAX_OWNER_BYTES: {
    key: 'maxOwnerBytes',
    unset: Number.POSITIVE_INFINITY,
    valid: [
      ['0', Number.POSITIVE_INFINITY],
      ['10GiB', 10 * 1024 ** 3],
    ],
    invalid: [['10 GB', /must be a number of bytes \(0 for no limit\)/]],
  },
  START_TIMEOUT_MS: {
    key: 'startTimeoutMs',
    unset: 60_000,
    valid: [
      ['0', 0],
      ['3600000', 3_600_000],
    ],
    invalid: [
      ['-1', wholeNumber],
      ['3600001', wholeNumber],
    ],
  },
  DRAIN_MS: {
    key: 'drainMs',
    unset: 0,
    valid: [
      ['0', 0],
      ['10000', 10_000],
      ['600000', 600_000],
    ],
    invalid: [
      ['600001', wholeNumber],
      ['10s', wholeNumber],
    ],
  },
  STOP_TIMEOUT_MS: {
    key: 'stopTimeoutMs',
    unset: 60_000,
    valid: [
      ['0', 0],
      ['86400000', 86_400_000],
    ],
    invalid: [
      ['86400001', wholeNumber],
      ['1m', wholeNumber],
    ],
  },
  HOST: {
    key: 'host',
    unset: '127.0.0.1',
    valid: [
      ['0.0.0.0', '0.0.0.0'],
      ['::', '::'],
      ['localhost', 'localhost'],
      ['git.example.org', 'git.example.org'],
    ],
    invalid: [
      ['http://localhost', /is "http:\/\/localhost", but must be an IP address or a host name/],
      ['-rf', /host name/],
      ['a b', /host name/],
      ['[::1]', /host name/],
    ],
  },
  PORT: {
    key: 'port',
    unset: 3000,
    valid: [
      ['0', 0],
      ['65535', 65535],
    ],
    invalid: [
      ['65536', /is "65536", but must be a whole number from 0 to 65535/],
      ['-1', wholeNumber],
      ['80.5', wholeNumber],
      ['0x50', wholeNumber],
      [' 80', wholeNumber],
      ['http', wholeNumber],
    ],
  },
  GRPC_PORT: {
    key: 'grpcPort',
    unset: 9090,
    valid: [
      ['0', 0],
      ['50051', 50051],
    ],
    invalid: [
      ['99999', wholeNumber],
      ['3000', /is "3000", but must differ from PORT/],
    ],
  },
  CORS_ORIGINS: {
    key: 'corsOrigins',
    unset: undefined,
    valid: [
      ['https://app.example.org', ['https://app.example.org']],
      [
        'HTTPS://App.example.org:443, http://localhost:5173',
        ['https://app.example.org', 'http://localhost:5173'],
      ],
    ],
    invalid: [
      ['*', /must be a list of origins/],
      ['app.example.org', /must be a list of origins/],
      ['https://app.example.org/', /without a path/],
      ['https://a.example,', /with commas between them/],
    ],
  },
  LOCAL_PASSWORDS: {
    key: 'localPasswords',
    unset: true,
    beside: OIDC,
    valid: [
      ['on', true],
      ['off', false],
    ],
    invalid: [
      ['no', /must be on or off/],
      ['Off', /must be on or off/],
    ],
  },
  OIDC_ISSUER: {
    key: 'oidcIssuer',
    unset: undefined,
    beside: { OIDC_CLIENT_ID: OIDC.OIDC_CLIENT_ID, OIDC_CLIENT_SECRET: OIDC.OIDC_CLIENT_SECRET },
    valid: [
      ['https://id.example.org', 'https://id.example.org'],
      ['https://id.example.org/realms/x/', 'https://id.example.org/realms/x/'],
      ['http://127.0.0.1:8080', 'http://127.0.0.1:8080'],
    ],
    invalid: [
      ['http://id.example.org', /must be an https:\/\/ URL/],
      ['id.example.org', /must be an https:\/\/ URL/],
      ['https://id.example.org?x=1', /must be an https:\/\/ URL/],
      ['ftp://id.example.org', /must be an https:\/\/ URL/],
    ],
  },
  OIDC_CLIENT_ID: {
    key: 'oidcClientId',
    unset: undefined,
    beside: { OIDC_ISSUER: OIDC.OIDC_ISSUER, OIDC_CLIENT_SECRET: OIDC.OIDC_CLIENT_SECRET },
    valid: [['mergelog', 'mergelog']],
    invalid: [['two words', /printable characters without spaces/]],
  },
  OIDC_CLIENT_SECRET: {
    key: 'oidcClientSecret',
    unset: undefined,
    beside: { OIDC_ISSUER: OIDC.OIDC_ISSUER, OIDC_CLIENT_ID: OIDC.OIDC_CLIENT_ID },
    valid: [['long enough', 'long enough']],
    invalid: [['short', /^OIDC_CLIENT_SECRET is "\(5 characters\)", but must be 8 to 1000/]],
  },
  OIDC_SCOPES: {
    key: 'oidcScopes',
    unset: 'openid profile email',
    valid: [['openid  groups', 'openid groups']],
    invalid: [
      ['profile', /among them openid/],
      ['openid "x"', /among them openid/],
    ],
  },
  OIDC_LOGIN_CLAIM: {
    key: 'oidcLoginClaim',
    unset: 'preferred_username',
    valid: [['nickname', 'nickname']],
    invalid: [['a b', /without spaces/]],
  },
  OIDC_GROUPS_CLAIM: {
    key: 'oidcGroupsClaim',
    unset: 'groups',
    valid: [['https://example.org/roles', 'https://example.org/roles']],
    invalid: [['a b', /without spaces/]],
  },
  OIDC_ORGANIZATIONS: {
    key: 'oidcOrganizations',
    unset: undefined,
    valid: [
      ['devs=acme', [{ group: 'devs', organization: 'acme', permission: 'write' }]],
      [
        '/a b%2Cc=x=acme:admin, r=docs:read',
        [
          { group: '/a b,c=x', organization: 'acme', permission: 'admin' },
          { group: 'r', organization: 'docs', permission: 'read' },
        ],
      ],
    ],
    invalid: [
      ['devs', /a list of group=organization/],
      ['devs=acme:owner', /a list of group=organization/],
      ['=acme', /a list of group=organization/],
      ['a=b,', /a list of group=organization/],
      ['%FF=acme', /a list of group=organization/],
      ['%=acme', /a list of group=organization/],
    ],
  },
  WEBHOOK_ALLOWED_HOSTS: {
    key: 'webhookAllowedHosts',
    unset: undefined,
    valid: [],
    invalid: [
      ['ci.internal,', /a list of host names/],
      ['http://ci.internal', /a list of host names/],
      ['10.0.0.0/33', /a list of host names/],
      ['10.0.0', /a list of host names/],
      ['ci.*.internal', /a list of host names/],
    ],
  },
  OIDC_LINK_BY_EMAIL: {
    key: 'oidcLinkByEmail',
    unset: false,
    valid: [['on', true]],
    invalid: [['yes', /must be on or off/]],
  },
  TLS_CERT: {
    key: 'tlsCert',
    unset: undefined,
    beside: { TLS_KEY: '/etc/mergelog/tls.key' },
    valid: [['/etc/mergelog/tls.crt', '/etc/mergelog/tls.crt']],
    invalid: [['a\0b', /must be the path of a file/]],
  },
  TLS_KEY: {
    key: 'tlsKey',
    unset: undefined,
    beside: { TLS_CERT: '/etc/mergelog/tls.crt' },
    valid: [['tls.key', resolve('tls.key')]],
    invalid: [['a\0b', /must be the path of a file/]],
  },
  GRPC_TLS_CERT: {
    key: 'grpcTlsCert',
    unset: undefined,
    beside: { GRPC_TLS_KEY: '/etc/mergelog/tls.key' },
    valid: [
      ['/etc/mergelog/tls.crt', '/etc/mergelog/tls.crt'],
      ['tls.crt', resolve('tls.crt')],
    ],
    invalid: [['a\0b', /must be the path of a file/]],
  },
  GRPC_TLS_KEY: {
    key: 'grpcTlsKey',
    unset: undefined,
    beside: { GRPC_TLS_CERT: '/etc/mergelog/tls.crt' },
    valid: [['/etc/mergelog/tls.key', '/etc/mergelog/tls.key']],
    invalid: [['a\0b', /must be the path of a file/]],
  },
  GRPC_MAX_MESSAGE_BYTES: {
    key: 'grpcMaxMessageBytes',
    unset: 2 ** 20,
    valid: [
      ['32KiB', 2 ** 15],
      ['64MiB', 2 ** 26],
    ],
    invalid: [
      ['1KiB', /is "1KiB", but must be a number of bytes from 32KiB to 64MiB, as/],
      ['65MiB', /from 32KiB to 64MiB/],
      ['0', /must be a number of bytes/],
    ],
  },
  DATA_DIR: {
    key: 'dataDir',
    unset: resolve('data'),
    valid: [
      ['/var/lib/mergelog', '/var/lib/mergelog'],
      ['../elsewhere/', resolve('../elsewhere')],
    ],
    invalid: [['a\0b', /must be a directory/]],
  },
  SIGNING_KEY: {
    key: 'signingKey',
    unset: undefined,
    valid: [
      ['/etc/mergelog/key', '/etc/mergelog/key'],
      ['key', resolve('key')],
    ],
    invalid: [['a\0b', /must be the path of a file/]],
  },
  LOG_SIGNING_KEY: {
    key: 'logSigningKey',
    unset: undefined,
    beside: { PUBLIC_URL: 'https://git.example.org' },
    valid: [
      ['/etc/mergelog/log.pem', '/etc/mergelog/log.pem'],
      ['log.pem', resolve('log.pem')],
    ],
    invalid: [['a\0b', /must be the path of a file/]],
  },
  ALLOWED_SIGNERS: {
    key: 'allowedSigners',
    unset: undefined,
    valid: [['/etc/mergelog/signers', '/etc/mergelog/signers']],
    invalid: [['a\0b', /must be the path of a file/]],
  },
  PUBLIC_URL: {
    key: 'publicUrl',
    unset: undefined,
    valid: [
      ['https://git.example.org', 'https://git.example.org'],
      ['http://localhost:3000', 'http://localhost:3000'],
      ['https://example.org/git', 'https://example.org/git'],
    ],
    invalid: [
      ['https://git.example.org/', web],
      ['git.example.org', web],
      ['ftp://git.example.org', web],
      ['https://', web],
      ['https:///path', web],
      ['https://git.example.org:99999', web],
      ['https://git.example.org?a=b', web],
      ['https://git.example.org#top', web],
    ],
  },
  EVENTSTORE_URL: {
    key: 'eventStoreUrl',
    unset: undefined,
    valid: [
      ['esdb://localhost:2113?tls=false', 'esdb://localhost:2113?tls=false'],
      ['esdb+discover://admin:changeit@cluster', 'esdb+discover://admin:changeit@cluster'],
      ['esdb://a:2113,b:2114?tls=true', 'esdb://a:2113,b:2114?tls=true'],
      ['kurrentdb://localhost:2113?tls=false', 'esdb://localhost:2113?tls=false'],
      ['kurrentdb+discover://cluster', 'esdb+discover://cluster'],
      [
        'esdb://a:p%40s%2Fs%25@b/?tls=true&tlsVerifyCert=true',
        'esdb://a:p%40s%2Fs%25@b/?tls=true&tlsVerifyCert=true',
      ],
      [
        'esdb://a?keep-alive_INTERVAL=-1&tlsCAFile=%2Fca.pem&nodePreference=Leader',
        'esdb://a?keep-alive_INTERVAL=-1&tlsCAFile=%2Fca.pem&nodePreference=Leader',
      ],
    ],
    invalid: [
      ['localhost:2113', eventStore],
      ['http://localhost:2113', eventStore],
      ['esdb://', eventStoreHost],
      ['esdb:// localhost', eventStore],
      ['esdb://[::1]:2113', eventStoreHost],
      ['esdb://a:70000', eventStoreHost],
      ['esdb://admin@a', /names a user without a password/],
      ['esdb://admin:pa%ss@a', mustEncode],
      ['esdb://admin:pa/ss@a', mustEncode],
      ['esdb://admin:p@ss@a', mustEncode],
      ['esdb://admin:pa?ss@a', mustEncode],
      ['esdb://admin:pa#ss@a', mustEncode],
      [
        'esdb://a?tlsVerfyCert=true',
        /has the option "tlsVerfyCert", which does not exist; there are tls, tlsCAFile/,
      ],
      ['esdb://a?tls', /has the option tls, which must be true or false/],
      ['esdb://a?tls=maybe', /has the option tls, which must be true or false/],
      ['esdb://a?tls=true&TLS=false', /has the option "TLS" twice/],
      [
        'esdb://a?tlsVerifyCert=false',
        /has the option tlsVerifyCert, which can only be true: name the certificate/,
      ],
      ['esdb://a?defaultDeadline=0', /has the option defaultDeadline, which must be a whole number from 1/],
      ['esdb://a?nodePreference=best', /which must be leader/],
      [
        'esdb://a,b?nodePreference=follower',
        /which must be leader: other nodes may lag behind what was written/,
      ],
      ['esdb://a?userKeyFile=k.pem', /must have both of the options userCertFile and userKeyFile, or none/],
    ],
  },
  MONGODB_URL: {
    key: 'mongodbUrl',
    unset: undefined,
    valid: [
      ['mongodb://localhost', 'mongodb://localhost'],
      [
        'mongodb://u:p%40@a:27017,b:27018/mergelog?replicaSet=rs',
        'mongodb://u:p%40@a:27017,b:27018/mergelog?replicaSet=rs',
      ],
      ['mongodb://[::1]:27017', 'mongodb://[::1]:27017'],
      ['mongodb+srv://cluster.example.org/mergelog', 'mongodb+srv://cluster.example.org/mergelog'],
      ['mongodb://%2Ftmp%2Fmongodb-27017.sock', 'mongodb://%2Ftmp%2Fmongodb-27017.sock'],
    ],
    invalid: [
      ['localhost:27017', mongodb],
      ['postgres://localhost', mongodb],
      ['mongodb://', mongodb],
      ['mongodb+srv:localhost', mongodb],
    ],
  },
  ADMIN_PASSWORD: {
    key: 'adminPassword',
    unset: undefined,
    valid: [
      ['12345678', '12345678'],
      ['  with spaces  ', '  with spaces  '],
    ],
    invalid: [['1234567', /is "\(7 characters\)", but must be at least 8 characters long/]],
  },
  LOG_LEVEL: {
    key: 'logLevel',
    unset: 'info',
    valid: ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'].map((level) => [level, level]),
    invalid: [
      ['verbose', /is "verbose", but must be one of fatal, error, warn, info, debug, trace, silent/],
      ['INFO', /must be one of/],
    ],
  },
  MAX_BODY_BYTES: {
    key: 'maxBodyBytes',
    unset: 4 * 2 ** 20,
    valid: [
      ['1024', 1024],
      ['512KiB', 512 * 2 ** 10],
      ['1GiB', 2 ** 30],
    ],
    invalid: [
      ['0', /is "0", but must be a number of bytes from 1KiB to 1GiB, as/],
      ['2GiB', /from 1KiB to 1GiB/],
      ['4MB', /must be a number of bytes/],
      ['many', /must be a number of bytes/],
      ['1e6', /must be a number of bytes/],
    ],
  },
  MAX_FILE_BODY_BYTES: {
    key: 'maxFileBodyBytes',
    unset: 32 * 2 ** 20,
    valid: [
      ['1024', 1024],
      ['512KiB', 512 * 2 ** 10],
      ['1GiB', 2 ** 30],
    ],
    invalid: [
      ['0', /is "0", but must be a number of bytes from 1KiB to 1GiB, as/],
      ['2GiB', /from 1KiB to 1GiB/],
      ['4MB', /must be a number of bytes/],
      ['many', /must be a number of bytes/],
      ['1e6', /must be a number of bytes/],
    ],
  },
  MAX_TEXT_CHARACTERS: {
    key: 'maxTextCharacters',
    unset: 131_072,
    valid: [
      ['1', 1],
      ['393216', 393_216],
    ],
    invalid: [
      ['0', wholeNumber],
      ['393217', wholeNumber],
      ['64KiB', wholeNumber],
    ],
  },
  MAX_PUSH_BYTES: {
    key: 'maxPushBytes',
    unset: 4 * 2 ** 30,
    valid: [
      ['0', Number.POSITIVE_INFINITY],
      ['1', 1],
      ['2TiB', 2 * 2 ** 40],
    ],
    invalid: [
      ['-1', /must be a number of bytes \(0 for no limit\), as/],
      ['999999999999TiB', /must be a number of bytes/],
    ],
  },
  MAX_OBJECT_BYTES: {
    key: 'maxObjectBytes',
    unset: 256 * 2 ** 20,
    valid: [
      ['0', Number.POSITIVE_INFINITY],
      ['100MiB', 100 * 2 ** 20],
    ],
    invalid: [['-1', /must be a number of bytes \(0 for no limit\), as/]],
  },
  MAX_PUSH_REFS: {
    key: 'maxPushRefs',
    unset: 10_000,
    valid: [
      ['1', 1],
      ['100000', 100_000],
    ],
    invalid: [
      ['0', wholeNumber],
      ['100001', wholeNumber],
    ],
  },
  LFS_MAX_BYTES: {
    key: 'lfsMaxBytes',
    unset: 8 * 2 ** 30,
    valid: [
      ['1', 1],
      ['1TiB', 2 ** 40],
    ],
    invalid: [['0', /^LFS_MAX_BYTES is "0", but must be /]],
  },
  ATTACHMENT_MAX_BYTES: {
    key: 'attachmentMaxBytes',
    unset: 2 * 2 ** 30,
    valid: [
      ['1', 1],
      ['300MiB', 300 * 2 ** 20],
      ['1TiB', 2 ** 40],
    ],
    invalid: [
      ['0', /must be a number of bytes from 1, as/],
      ['2GB', /must be a number of bytes/],
    ],
  },
  RELEASE_ALLOWED_TYPES: {
    key: 'releaseAllowedTypes',
    unset: ['*/*'],
    valid: [['.zip,.deb', ['.zip', '.deb']]],
    invalid: [['zip', /must be a list of/]],
  },
  ATTACHMENT_ALLOWED_TYPES: {
    key: 'attachmentAllowedTypes',
    unset: (
      '.avif .cpuprofile .csv .dmp .docx .fodg .fodp .fods .fodt .gif .gz .jpeg .jpg .json .jsonc .log .md .mov ' +
      '.mp4 .odf .odg .odp .ods .odt .patch .pdf .png .pptx .svg .tgz .txt .webm .webp .xls .xlsx .zip'
    ).split(' '),
    valid: [
      ['*/*', ['*/*']],
      ['.zip', ['.zip']],
      [' .ZIP , image/*,Text/Plain,.tar.gz', ['.zip', 'image/*', 'text/plain', '.tar.gz']],
    ],
    invalid: [
      [
        'zip',
        /is "zip", but must be a list of \.endings, media\/types or families\/\* with commas between them/,
      ],
      ['.zip,', /must be a list of/],
      ['.zip;.gz x', /must be a list of/],
      ['.a/b', /must be a list of/],
      ['image/', /must be a list of/],
      ['*/png', /must be a list of/],
    ],
  },
  TRUST_PROXY: {
    key: 'trustProxy',
    unset: undefined,
    valid: [
      ['loopback', ['loopback']],
      ['10.0.0.0/8, 192.0.2.7,::1,fc00::/7', ['10.0.0.0/8', '192.0.2.7', '::1', 'fc00::/7']],
    ],
    invalid: [
      ['true', /is "true", but must be a list of IP addresses, ranges as 10\.0\.0\.0\/8, or loopback/],
      ['1', /must be a list of IP addresses/],
      ['10.0.0.0/33', /must be a list of IP addresses/],
      ['::1/129', /must be a list of IP addresses/],
      ['10.0.0.1,', /must be a list of IP addresses/],
      ['proxy.example.org', /must be a list of IP addresses/],
    ],
  },
  MAX_CONNECTIONS: {
    key: 'maxConnections',
    unset: 4096,
    valid: [['10', 10]],
    invalid: [['0', /must be a whole number from 1 to 1000000/]],
  },
  MAX_CONNECTIONS_PER_ADDRESS: {
    key: 'maxConnectionsPerAddress',
    unset: 512,
    valid: [['1', 1]],
    invalid: [['many', /must be a whole number from 1 to 1000000/]],
  },
  REQUEST_TIMEOUT_MS: {
    key: 'requestTimeoutMs',
    unset: 30_000,
    valid: [['100', 100]],
    invalid: [['99', /must be a whole number from 100 to 3600000/]],
  },
  MAX_UNREAD_BYTES: {
    key: 'maxUnreadBytes',
    unset: 256 * 1024 * 1024,
    valid: [['1MiB', 1024 * 1024]],
    invalid: [['1KiB', /must be a number of bytes from 1MiB/]],
  },
  UNREAD_TIMEOUT_MS: {
    key: 'unreadTimeoutMs',
    unset: 60_000,
    valid: [['5000', 5000]],
    invalid: [['0', /must be a whole number from 100 to 3600000/]],
  },
  PAGE_LIMIT_DEFAULT: {
    key: 'pageLimitDefault',
    unset: 30,
    valid: [
      ['1', 1],
      ['50', 50],
    ],
    invalid: [
      ['0', /must be a whole number from 1 to 1000/],
      ['ten', wholeNumber],
    ],
  },
  PAGE_LIMIT_MAX: {
    key: 'pageLimitMax',
    unset: 50,
    valid: [
      ['30', 30],
      ['1000', 1000],
    ],
    invalid: [
      ['29', /is "29", but must be at least PAGE_LIMIT_DEFAULT, which is 30/],
      ['1001', /must be a whole number from 1 to 1000/],
    ],
  },
  PROJECTION_WAIT_MS: {
    key: 'projectionWaitMs',
    unset: 5000,
    valid: [
      ['0', 0],
      ['250', 250],
    ],
    invalid: [
      ['-5', wholeNumber],
      ['5s', wholeNumber],
    ],
  },
  GIT_READ_SLOTS: {
    key: 'gitReadSlots',
    unset: 16,
    valid: [['1', 1]],
    invalid: [['0', /must be a whole number from 1 to 1000/]],
  },
  GIT_PUSH_SLOTS: {
    key: 'gitPushSlots',
    unset: 8,
    valid: [['1000', 1000]],
    invalid: [['1001', wholeNumber]],
  },
  GIT_DIFF_SLOTS: {
    key: 'gitDiffSlots',
    unset: 4,
    valid: [['2', 2]],
    invalid: [['-1', wholeNumber]],
  },
  GIT_MEMORY_BYTES: {
    key: 'gitMemoryBytes',
    unset: 1024 ** 3,
    valid: [['64MiB', 64 * 1024 ** 2]],
    invalid: [
      ['31MiB', /must be a number of bytes from 32MiB/],
      ['0', /from 32MiB/],
    ],
  },
  GIT_TIMEOUT_MS: {
    key: 'gitTimeoutMs',
    unset: 600_000,
    valid: [['1', 1]],
    invalid: [['0', /must be a whole number from 1 to 86400000/]],
  },
  GIT_DIFF_TIMEOUT_MS: {
    key: 'gitDiffTimeoutMs',
    unset: 20_000,
    valid: [['86400000', 86_400_000]],
    invalid: [['86400001', wholeNumber]],
  },
  GIT_GRACE_MS: {
    key: 'gitGraceMs',
    unset: 30_000,
    valid: [['200', 200]],
    invalid: [['soon', wholeNumber]],
  },
  GIT_MIN_RATE_BYTES: {
    key: 'gitMinRateBytes',
    unset: 4096,
    valid: [['1', 1]],
    invalid: [['0', /must be a number of bytes from 1/]],
  },
  READ_TIMEOUT_MS: {
    key: 'readTimeoutMs',
    unset: 10_000,
    valid: [['1', 1]],
    invalid: [['0', wholeNumber]],
  },
  MAX_DIFF_LINES: {
    key: 'maxDiffLines',
    unset: 20_000,
    valid: [
      ['1', 1],
      ['10000000', 10_000_000],
    ],
    invalid: [
      ['0', /must be a whole number from 1 to 10000000/],
      ['all', wholeNumber],
    ],
  },
  MAX_DIFF_FILES: {
    key: 'maxDiffFiles',
    unset: 3000,
    valid: [
      ['1', 1],
      ['100000', 100_000],
    ],
    invalid: [
      ['0', /must be a whole number from 1 to 100000/],
      ['100001', wholeNumber],
    ],
  },
  MAX_DIFF_LINE_CHARACTERS: {
    key: 'maxDiffLineCharacters',
    unset: 5000,
    valid: [
      ['1', 1],
      ['1000000', 1_000_000],
    ],
    invalid: [
      ['0', /must be a whole number from 1 to 1000000/],
      ['-1', wholeNumber],
    ],
  },
}

t.strictSame(
  settings.map(({ name }) => name).sort(),
  Object.keys(cases).sort(),
  'every setting has cases in this test',
)

for (const { name, default: text, meaning } of settings) {
  const { key, unset, beside, valid, invalid } = cases[name]
  t.test(name, async (t) => {
    t.ok(meaning.length > 0, 'has a meaning for docs/configuration.md')
    t.strictSame(loadConfig({})[key], unset, 'has its default when unset')
    t.strictSame(loadConfig({ [name]: '' })[key], unset, 'counts as unset when empty')
    if (text !== '') t.strictSame(loadConfig({ [name]: text })[key], unset, 'accepts its default written out')
    for (const [value, expected] of valid) {
      t.strictSame(loadConfig({ ...beside, [name]: value })[key], expected, `accepts ${value}`)
    }
    for (const [value, message] of invalid) {
      const error = refusal({ ...beside, [name]: value })
      t.equal(error.setting, name, `refuses ${JSON.stringify(value)}`)
      t.match(error.message, message, 'says what is allowed')
      t.ok(error.message.startsWith(`${name} `), 'names the variable first')
      t.notMatch(error.message, /[\r\n]/, 'in one line')
    }
  })
}
