import t from 'tap'
import { isOneEditAway, startWarnings } from '../../src/cli/start-warnings.ts'

const USER = 1000

t.test('an unknown setting one edit away from a known one: a warning with the right name', async (t) => {
  const env = {
    ADMIN_PASWORD: 'hunter2',
    PROT: '1',
    GRPC_PORTS: '1',
    'DATA-DIR': 'x',
    ADMIN_PASSWORD: 'x',
    PATH: '/bin',
    HOME: '/root',
    OTHER_DATA_DIR: 'x',
  }
  t.same(startWarnings(env, USER), [
    'ADMIN_PASWORD is not a setting and is ignored. Did you mean ADMIN_PASSWORD?',
    'PROT is not a setting and is ignored. Did you mean PORT?',
    'GRPC_PORTS is not a setting and is ignored. Did you mean GRPC_PORT?',
    'DATA-DIR is not a setting and is ignored. Did you mean DATA_DIR?',
  ])
  t.same(startWarnings({ PORT: '1', HOST: 'x' }, USER), [])
})

t.test('one edit is an added, missing or wrong letter, or two swapped ones', async (t) => {
  for (const other of [
    'xPORT',
    'PORTx',
    'POxRT',
    'ORT',
    'POR',
    'PRT',
    'xORT',
    'PORx',
    'PxRT',
    'OPRT',
    'POTR',
  ]) {
    t.ok(isOneEditAway('PORT', other), other)
    t.ok(isOneEditAway(other, 'PORT'), other)
  }
  for (const other of ['PORT', 'TROP', 'PO', 'PORTxx', 'xPORTx', 'xxRT', 'OPTR', '']) {
    t.notOk(isOneEditAway('PORT', other), other)
    t.notOk(isOneEditAway(other, 'PORT'), other)
  }
})

t.test('started as root: one warning line', async (t) => {
  t.match(startWarnings({}, 0), [/^the server runs as root.*: start it as a user of its own$/])
  t.same(startWarnings({}, USER), [])
})
