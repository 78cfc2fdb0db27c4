/** Parsing of the settings, their dependencies on each other, and error messages. */
import t from 'tap'
import { isShared, loadConfig } from '../../src/config/config.ts'
import type { SettingName } from '../../src/config/setting-table.ts'
import { refusal } from '../refused-config.ts'

t.test('no setting can be changed after the start', async (t) => {
  t.ok(Object.isFrozen(loadConfig({})))
})

t.test('settings are read from the given environment, not from the process', async (t) => {
  const env = { PORT: '4000', UNRELATED: 'x' }
  t.equal(loadConfig(env).port, 4000)
  t.strictSame(env, { PORT: '4000', UNRELATED: 'x' })
})

t.test('two servers may both ask for any free port', async (t) => {
  t.equal(loadConfig({ PORT: '0', GRPC_PORT: '0' }).grpcPort, 0)
})

t.test('a setting that depends on another one is set together with it or not at all', async (t) => {
  for (const [isSet, unset] of [
    ['TLS_CERT', 'TLS_KEY'],
    ['GRPC_TLS_CERT', 'GRPC_TLS_KEY'],
    ['OIDC_ISSUER', 'OIDC_CLIENT_ID'],
  ] as const) {
    const texts = { [isSet]: isSet === 'OIDC_ISSUER' ? 'https://id.example.org' : 'a' }
    t.match(refusal(texts), {
      setting: unset,
      message: `${unset} is not set, but must be set together with ${isSet}`,
    })
    t.match(refusal({ [unset]: 'a' }), {
      setting: isSet,
      message: `${isSet} is not set, but must be set together with ${unset}`,
    })
  }
  t.equal(
    refusal({ OIDC_ISSUER: 'https://id.example.org', OIDC_CLIENT_ID: 'a' }).message,
    'OIDC_CLIENT_SECRET is not set, but must be set together with OIDC_ISSUER',
  )
})

t.test('passwords are off only with a sign-in provider', async (t) => {
  t.equal(
    refusal({ LOCAL_PASSWORDS: 'off' }).message,
    'LOCAL_PASSWORDS is "off", but must be on without OIDC_ISSUER',
  )
})

t.test('PAGE_LIMIT_MAX is at least PAGE_LIMIT_DEFAULT, also when one of them is a default', async (t) => {
  t.equal(refusal({ PAGE_LIMIT_DEFAULT: '60' }).setting, 'PAGE_LIMIT_MAX')
  t.equal(loadConfig({ PAGE_LIMIT_DEFAULT: '60', PAGE_LIMIT_MAX: '60' }).pageLimitMax, 60)
})

t.test('MONGODB_URL: an unsupported option is one line with its name, and no password', async (t) => {
  const wrong: [string, RegExp][] = [
    ['maxpool=5', /has the option "maxpool", which Mergelog does not allow; the allowed ones are appName, /],
    ['w=0', /has the option w, which must be majority$/],
    ['j=false', /has the option journal, which must be true$/],
    ['readPreference=secondary', /has the option readPreference, which must be primary$/],
    ['readConcernLevel=local', /has the option readConcernLevel, which must be majority$/],
    ['tls=maybe', /has the option tls, which must be true or false$/],
    [
      'serverSelectionTimeoutMS=600000',
      /serverSelectionTimeoutMS, which must be a whole number from 100 to 15000$/,
    ],
    ['wtimeoutMS=0', /wtimeoutMS, which must be a whole number from 1000 to 60000$/],
    ['compressors=snappy', /compressors, which must be a list of none and zlib$/],
    ['tls=true&TLS=true', /has the option "TLS" twice$/],
    ['timeoutMS=1&tlsCertificateKeyFilePassword=hunter2', /"timeoutMS"/],
  ]
  for (const [options, message] of wrong) {
    const error = refusal({ MONGODB_URL: `mongodb://root:hunter2@db/x?${options}` })
    t.match(error.message, message)
    t.match(error.message, /^MONGODB_URL has /)
    t.notMatch(error.message, /hunter2|root|\n/)
  }
  for (const url of [
    'mongodb://root:hun%ter2@db',
    'mongodb://root:a@hunter2@db',
    'mongodb://root:a/hunter2@db',
  ]) {
    const { message } = refusal({ MONGODB_URL: url })
    t.match(message, /^MONGODB_URL has a user or a password with a character that must be percent-encoded/)
    t.notMatch(message, /hun|root/)
  }
  t.match(
    refusal({ MONGODB_URL: 'mongodb+srv://a.example.org:27017/x' }).message,
    /exactly one host, without a port/,
  )
  const taken =
    'mongodb://u:p%40@a,b:27018/x?replicaSet=rs&tls=true&tlsCAFile=%2Fca.pem&authSource=admin&maxPoolSize=20' +
    '&compressors=zlib&w=majority&serverSelectionTimeoutMS=3000&wtimeoutMS=5000&retryWrites=false'
  t.equal(loadConfig({ MONGODB_URL: taken }).mongodbUrl, taken)
})

t.test('an error shows no secret', async (t) => {
  const secrets: [SettingName, string][] = [
    ['MONGODB_URL', 'mongo://root:hunter2@db/x'],
    ['MONGODB_URL', 'mongodb//root:hunter2@db/x'],
    ['MONGODB_URL', 'root:hunter2@db'],
    ['MONGODB_URL', 'mongodb://root:a@hunter2@db/ x'],
    ['MONGODB_URL', 'mongodb://root:a?hunter2@db/x'],
    ['MONGODB_URL', 'mongodb://db/ x?tlsCertificateKeyFilePassword=hunter2'],
    ['EVENTSTORE_URL', 'http://admin:hunter2@events:2113'],
    ['EVENTSTORE_URL', 'esdb://admin:hunter2\n@events:2113'],
    ...[
      'esdb://admin:hunter2@events?tlsVerfyCert=true',
      'esdb://admin:hunter2@events?tlsVerifyCert=false',
      'esdb://admin:hunter2@events?tls=maybe',
      'esdb://admin:hunter2%@events',
      'esdb://admin:hunter2/@events',
      'esdb://admin:@hunter2@events',
      'esdb://admin:hunter2?tls=hunter2@events',
      'esdb://admin:hunter2@events:port',
      'esdb://admin:hunter2',
      'esdb:/admin:hunter2@events',
    ].map((url): [SettingName, string] => ['EVENTSTORE_URL', url]),
    ['MONGODB_URL', 'mongodb://root:hunter2'],
    ['PUBLIC_URL', 'https://me:hunter2@example.org'],
    ['ADMIN_PASSWORD', 'hunter2'],
  ]
  for (const [name, value] of secrets) {
    const { message } = refusal({ [name]: value })
    t.notMatch(message, 'hunter2', message)
    t.notMatch(message, 'root:', 'the user name is hidden too')
  }
})

t.test('an error is one short line, however long the value is', async (t) => {
  const { message } = refusal({ LOG_LEVEL: `a\nb${'x'.repeat(100_000)}` })
  t.match(message, /^LOG_LEVEL is "a\\nbx+", but/)
  t.ok(message.length < 500)
})

t.test('several nodes run when both EVENTSTORE_URL and MONGODB_URL are set', async (t) => {
  const EVENTSTORE_URL = 'esdb://localhost:2113?tls=false'
  const MONGODB_URL = 'mongodb://localhost:27017/mergelog'
  t.equal(isShared(loadConfig({ EVENTSTORE_URL, MONGODB_URL })), true)
  for (const env of [{}, { EVENTSTORE_URL }, { MONGODB_URL }]) t.equal(isShared(loadConfig(env)), false)
})
