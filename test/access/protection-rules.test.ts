import t from 'tap'
import { checksOutcome, mayMerge, mayPush, protectionOf } from '../../src/access/protection-rules.ts'
import { timeSlices } from '../../src/concurrency/event-loop.ts'
import type { BranchProtection } from '../../src/events/catalog/branches.ts'
import type { CommitState } from '../../src/events/catalog/statuses.ts'

const AT = '2026-01-02T03:04:05.000Z'

function rule(name: string, more: Partial<BranchProtection> = {}): BranchProtection {
  return {
    id: 1,
    rule: name,
    priority: 1,
    push: false,
    pushers: null,
    mergers: null,
    statusCheck: false,
    contexts: [],
    requireSigned: false,
    blockOutdated: false,
    blockAdminOverride: false,
    createdAt: AT,
    updatedAt: AT,
    ...more,
  }
}

const member = (id: number, ...teams: number[]) => ({ id, teams })

t.test(
  'the rule with the lowest priority number applies, even if another one has the exact name',
  async (t) => {
    const rules = [rule('m*', { priority: 1 }), rule('main', { priority: 2 }), rule('**', { priority: 3 })]
    t.equal(protectionOf(rules, 'main')?.rule, 'm*')
    t.equal(protectionOf(rules, 'topic')?.rule, '**')
    t.equal(protectionOf([rule('main', { priority: 1 }), rule('**', { priority: 2 })], 'main')?.rule, 'main')
  },
)

t.test('among rules of one priority, the rule with the exact name of the branch applies', async (t) => {
  const rules = [rule('**'), rule('Main'), rule('main')]
  t.equal(protectionOf(rules, 'main')?.rule, 'main')
  t.equal(protectionOf(rules, 'Main')?.rule, 'Main')
})

t.test('a rule without special characters comes next, and then the first matching rule', async (t) => {
  const rules = [rule('release/1*'), rule('release/*'), rule('**')]
  t.equal(protectionOf(rules, 'release/12')?.rule, 'release/1*')
  t.equal(protectionOf(rules, 'release/2')?.rule, 'release/*')
  t.equal(protectionOf(rules, 'release/2/3')?.rule, '**')
  t.equal(protectionOf(rules.slice(0, 2), 'topic'), undefined)
  t.equal(protectionOf([], 'main'), undefined)
  t.equal(protectionOf([rule('**'), rule('MAIN')], 'main')?.rule, 'MAIN')
})

t.test('a rule without special characters ignores case, so that MAIN does not bypass it', async (t) => {
  t.equal(protectionOf([rule('main')], 'MAIN')?.rule, 'main')
  t.equal(protectionOf([rule('m*')], 'MAIN'), undefined)
})

t.test('writers may push to unprotected branches, readers never', async (t) => {
  t.ok(mayPush(undefined, member(1), 'write'))
  t.ok(mayPush(undefined, member(1), 'admin'))
  t.notOk(mayPush(undefined, member(1), 'read'))
  t.notOk(mayPush(undefined, member(1), 'none'))
})

t.test('a protected branch accepts pushes only if it allows them, from users it names', async (t) => {
  t.notOk(mayPush(rule('main'), member(1), 'admin'))
  t.notOk(mayPush(rule('main', { push: false, pushers: [1] }), member(1), 'write'))
  t.ok(mayPush(rule('main', { push: true }), member(1), 'write'))
  t.ok(mayPush(rule('main', { push: true, pushers: [1] }), member(1), 'write'))
  t.notOk(mayPush(rule('main', { push: true, pushers: [1] }), member(2), 'admin'))
  t.notOk(mayPush(rule('main', { push: true, pushers: [] }), member(1), 'write'))
  const ofTeam = rule('main', { push: true, pushers: [], pusherTeams: [7] })
  t.ok(mayPush(ofTeam, member(1, 7), 'write'))
  t.notOk(mayPush(ofTeam, member(1, 8), 'write'))
  t.notOk(mayPush(ofTeam, member(1, 7), 'read'))
  t.notOk(mayPush(rule('main', { push: true, pushers: [1] }), member(1), 'read'), 'not a writer any more')
})

t.test('writers may merge; if the rule names users, only those users may', async (t) => {
  t.ok(mayMerge(undefined, member(1), 'write'))
  t.ok(mayMerge(rule('main'), member(1), 'write'))
  t.notOk(mayMerge(rule('main'), member(1), 'read'))
  t.ok(mayMerge(rule('main', { mergers: [1] }), member(1), 'write'))
  t.notOk(mayMerge(rule('main', { mergers: [1] }), member(2), 'admin'))
  t.ok(mayMerge(rule('main', { mergers: [1], mergerTeams: [7] }), member(2, 7), 'write'))
  t.notOk(mayMerge(rule('main', { mergers: [1] }), member(1), 'read'), 'not a writer any more')
})

t.test('checks', async (t) => {
  const outcome = (contexts: string[], posted: Record<string, CommitState>) =>
    checksOutcome({ contexts }, new Map(Object.entries(posted)), async () => {})

  t.test('without required contexts, a status must be posted and all must be success', async (t) => {
    t.equal(await outcome([], {}), 'pending')
    t.equal(await outcome([], { a: 'success', b: 'success' }), 'success')
    t.equal(await outcome([], { a: 'success', b: 'pending' }), 'pending')
    t.equal(await outcome([], { a: 'success', b: 'failure' }), 'failed')
  })

  t.test('required contexts must be posted and be success; others are ignored', async (t) => {
    t.equal(await outcome(['ci'], { lint: 'success' }), 'pending')
    t.equal(await outcome(['ci'], { ci: 'success', lint: 'failure' }), 'success')
    t.equal(await outcome(['ci', 'lint'], { ci: 'success' }), 'pending')
    t.equal(await outcome(['ci', 'lint'], { ci: 'success', lint: 'pending' }), 'pending')
    t.equal(await outcome(['ci'], { CI: 'success' }), 'pending', 'case matters')
  })

  t.test('`skipped` counts as success', async (t) => {
    t.equal(await outcome([], { a: 'skipped' }), 'success')
    t.equal(await outcome(['a', 'b'], { a: 'skipped', b: 'success' }), 'success')
    t.equal(await outcome(['a'], { a: 'skipped', b: 'failure' }), 'success')
    t.equal(await outcome([], { a: 'skipped', b: 'failure' }), 'failed')
    t.equal(await outcome([], { a: 'skipped', b: 'pending' }), 'pending')
  })

  t.test('failure, error and warning are not a success, and decide even if others are pending', async (t) => {
    for (const state of ['failure', 'error', 'warning'] as const) {
      t.equal(await outcome(['ci', 'lint'], { ci: state }), 'failed', state)
      t.equal(await outcome([], { ci: state, lint: 'pending' }), 'failed', state)
    }
  })

  t.test('a required pattern must match a status, and all matching statuses must be success', async (t) => {
    t.equal(await outcome(['ci/*'], { lint: 'success' }), 'pending')
    t.equal(await outcome(['ci/*'], { 'ci/linux/x64': 'success' }), 'success', 'a star matches slashes here')
    t.equal(await outcome(['ci/*'], { 'ci/a': 'success', 'ci/b': 'failure' }), 'failed')
  })
})

t.test('matching many contexts with long patterns does not block the event loop', async (t) => {
  const posted = new Map<string, CommitState>()
  for (let i = 0; i < 300; i++) posted.set(`${'a'.repeat(250)}${i}`, 'success')
  let turns = 0
  const next = () => {
    turns += 1
    counter = setImmediate(next)
  }
  let counter = setImmediate(next)
  const patterns = ['{*,**}'.repeat(41), `${'**a'.repeat(80)}b`]
  t.equal(await checksOutcome({ contexts: patterns }, posted, timeSlices('anyone').pauseIfOver), 'pending')
  clearImmediate(counter)
  t.ok(turns >= 20, `${turns} turns`)
})
