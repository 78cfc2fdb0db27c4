import { join } from 'node:path'
import t from 'tap'
import { makeKey } from '../../../git/ssh-keys.ts'
import { workTree } from '../../../git-client.ts'
import { temporaryDirectory } from '../../../maintenance/backup/restored.ts'
import { startTestServer, statusOf } from '../../../start-server.ts'

const key = await makeKey(join(await temporaryDirectory(t), 'key'))
const server = await startTestServer(t, { ALLOWED_SIGNERS: key.signers })

t.test('branch protections over HTTP', async (t) => {
  const alice = await server.as('alice')
  const bob = await server.as('bob')
  await server.as('carol')
  await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  await alice.repos.repoAddCollaborator('alice', 'app', 'bob', { permission: 'write' })
  const call = async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
    const answer = await server.fetch('alice', `/api/v1/repos/alice/app/branch_protections${path}`, {
      method,
      headers,
      ...(body && { body: JSON.stringify(body) }),
    })
    const json: unknown = answer.status === 204 ? undefined : await answer.json()
    return { status: answer.status, json }
  }

  await t.test('a rule has the given settings, and absent settings require nothing', async (t) => {
    const { status, data } = await alice.repos.repoCreateBranchProtection('alice', 'app', {
      rule_name: 'release/**',
      enable_push: true,
      enable_push_whitelist: true,
      push_whitelist_usernames: ['BOB', 'alice'],
      enable_merge_whitelist: true,
      merge_whitelist_usernames: ['alice'],
      enable_status_check: true,
      status_check_contexts: ['ci/*', 'lint'],
      require_signed_commits: true,
      block_on_outdated_branch: true,
      block_admin_merge_override: true,
    })
    t.equal(status, 201)
    const said = {
      rule_name: 'release/**',
      branch_name: 'release/**',
      priority: 1,
      enable_push: true,
      enable_push_whitelist: true,
      push_whitelist_usernames: ['bob', 'alice'],
      enable_merge_whitelist: true,
      merge_whitelist_usernames: ['alice'],
      enable_status_check: true,
      status_check_contexts: ['ci/*', 'lint'],
      require_signed_commits: true,
      block_on_outdated_branch: true,
      block_admin_merge_override: true,
      required_approvals: 0,
      enable_force_push: false,
      push_whitelist_teams: [],
      protected_file_patterns: '',
      created_at: String,
      updated_at: String,
    }
    t.match(data, said)
    const plain = await alice.repos.repoCreateBranchProtection('alice', 'app', { branch_name: 'main' })
    t.match(plain.data, {
      rule_name: 'main',
      priority: 2,
      enable_push: false,
      enable_push_whitelist: false,
      push_whitelist_usernames: [],
      enable_merge_whitelist: false,
      enable_status_check: false,
      status_check_contexts: [],
    })
    t.match((await alice.repos.repoGetBranchProtection('alice', 'app', 'release/**')).data, said)
    t.match((await call('GET', '/release%2F**')).json, said)
    const { data: list } = await alice.repos.repoListBranchProtection('alice', 'app')
    t.match(list, [said, { rule_name: 'main' }])
    t.equal(list.length, 2)
  })

  await t.test('an existing rule gives 403, a missing one 404', async (t) => {
    t.match(await call('POST', '', { rule_name: 'main' }), {
      status: 403,
      json: { message: /already exists/ },
    })
    for (const [method, body] of [['GET'], ['PATCH', { enable_push: true }], ['DELETE']] as const) {
      t.equal((await call(method, '/nothing', body)).status, 404, method)
      t.equal((await call(method, '/MAIN', body)).status, 404, `${method}: rules have one spelling`)
    }
  })

  await t.test('an edit changes what it names and nothing else', async (t) => {
    const { status, data } = await alice.repos.repoEditBranchProtection('alice', 'app', 'release/**', {
      enable_status_check: false,
      priority: 9,
    })
    t.equal(status, 200)
    t.match(data, {
      priority: 9,
      enable_status_check: false,
      status_check_contexts: ['ci/*', 'lint'],
      push_whitelist_usernames: ['bob', 'alice'],
      require_signed_commits: true,
    })
    t.match((await call('GET', '')).json, [{ rule_name: 'main' }, { rule_name: 'release/**' }], 'by priority')
    const off = await call('PATCH', '/release/**', { enable_push: false, merge_whitelist_usernames: [] })
    t.match(off, { status: 200, json: { enable_push: false, enable_push_whitelist: false } })
    t.match(off.json, {
      push_whitelist_usernames: [],
      merge_whitelist_usernames: [],
      enable_merge_whitelist: true,
    })
    const nulls = { enable_push: null, push_whitelist_teams: null, status_check_contexts: null }
    t.match(
      await call('PATCH', '/release/**', nulls),
      { status: 200, json: off.json ?? {} },
      'null is not said',
    )
  })

  await t.test('the review settings of a rule are set, kept and removed', async (t) => {
    const wanted = {
      required_approvals: 2,
      enable_approvals_whitelist: true,
      approvals_whitelist_username: ['bob'],
      block_on_rejected_reviews: true,
      block_on_official_review_requests: true,
      dismiss_stale_approvals: true,
      ignore_stale_approvals: true,
    }
    t.match(await call('PATCH', '/main', wanted), { status: 200, json: wanted })
    t.match((await call('PATCH', '/main', { enable_push: false })).json, wanted)
    const none = {
      required_approvals: 0,
      enable_approvals_whitelist: false,
      block_on_rejected_reviews: false,
      block_on_official_review_requests: false,
      dismiss_stale_approvals: false,
      ignore_stale_approvals: false,
    }
    t.match((await call('PATCH', '/main', none)).json, { ...none, approvals_whitelist_username: [] })
    t.match((await call('GET', '/main')).json, { ...none, approvals_whitelist_username: [] })
  })

  await t.test('settings that are not enforced give 422 with the field', async (t) => {
    const wanted: [string, unknown][] = [
      ['required_approvals', -1],
      ['required_approvals', 101],
      ['approvals_whitelist_username', ['bob']],
      ['approvals_whitelist_username', ['nobody-here']],
      ['approvals_whitelist_teams', ['team']],
      ['enable_force_push', true],
      ['force_push_allowlist_usernames', ['bob']],
      ['push_whitelist_teams', ['team']],
      ['push_whitelist_deploy_keys', true],
      ['merge_whitelist_teams', ['team']],
      ['protected_file_patterns', '*.lock'],
      ['unprotected_file_patterns', '*.md'],
    ]
    for (const [field, value] of wanted) {
      const message = new RegExp(`^${field}: `)
      t.match(
        await call('POST', '', { rule_name: 'x', [field]: value }),
        { status: 422, json: { message } },
        field,
      )
      t.match(await call('PATCH', '/main', { [field]: value }), { status: 422, json: { message } }, field)
    }
    const neutral = {
      rule_name: 'neutral',
      required_approvals: 0,
      push_whitelist_teams: [],
      protected_file_patterns: '',
    }
    t.equal((await call('POST', '', neutral)).status, 201, 'what asks for nothing is fine')
    t.equal((await call('DELETE', '/neutral')).status, 204)
  })

  await t.test('invalid rules, users and contexts give 422 with the field', async (t) => {
    const wrong: [string, object][] = [
      ['rule_name', {}],
      ['rule_name', { rule_name: '' }],
      ['rule_name', { rule_name: 'a['.repeat(3) }],
      ['branch_name', { branch_name: '{a' }],
      ['rule_name', { rule_name: 'a'.repeat(256) }],
      ['rule_name', { rule_name: 7 }],
      [
        'push_whitelist_usernames',
        { enable_push: true, enable_push_whitelist: true, push_whitelist_usernames: ['nobody'] },
      ],
      ['push_whitelist_usernames', { enable_push_whitelist: true, push_whitelist_usernames: ['bob'] }],
      ['merge_whitelist_usernames', { merge_whitelist_usernames: ['bob'] }],
      [
        'merge_whitelist_usernames',
        { enable_merge_whitelist: true, merge_whitelist_usernames: Array(101).fill('bob') },
      ],
      ['status_check_contexts', { status_check_contexts: ['ci['] }],
      ['status_check_contexts', { status_check_contexts: Array(101).fill('ci') }],
      [
        'status_check_contexts',
        { status_check_contexts: Array.from({ length: 3 }, (_, i) => `${'*a'.repeat(100)}${i}`) },
      ],
      ['priority', { priority: -1 }],
      ['enable_push', { enable_push: 'yes' }],
    ]
    for (const [field, body] of wrong) {
      const named = field.endsWith('_name') ? body : { rule_name: 'wrong', ...body }
      t.match(
        await call('POST', '', named),
        { status: 422, json: { message: new RegExp(`^${field}`) } },
        field,
      )
    }
    t.equal((await call('GET', '/wrong')).status, 404)
  })

  await t.test('only admins of the repository see and change rules', async (t) => {
    t.equal(await statusOf(bob.repos.repoListBranchProtection('alice', 'app')), 403)
    t.equal(await statusOf(bob.repos.repoGetBranchProtection('alice', 'app', 'main')), 403)
    t.equal(await statusOf(bob.repos.repoCreateBranchProtection('alice', 'app', { rule_name: 'b' })), 403)
    t.equal(
      await statusOf(bob.repos.repoEditBranchProtection('alice', 'app', 'main', { enable_push: true })),
      403,
    )
    t.equal(await statusOf(bob.repos.repoDeleteBranchProtection('alice', 'app', 'main')), 403)
    t.equal(await statusOf(server.anonymous.repos.repoListBranchProtection('alice', 'app')), 401)
    t.equal(await statusOf(alice.repos.repoListBranchProtection('alice', 'other')), 404)
  })

  await t.test('a retried POST creates one rule', async (t) => {
    const headers = { 'idempotency-key': 'rule' }
    const one = await call('POST', '', { rule_name: 'once' }, headers)
    t.equal(one.status, 201)
    t.same(await call('POST', '', { rule_name: 'once' }, headers), one)
  })

  await t.test('a deleted rule is gone', async (t) => {
    t.equal(await statusOf(alice.repos.repoDeleteBranchProtection('alice', 'app', 'release/**')), 204)
    t.equal((await call('GET', '/release/**')).status, 404)
    t.equal((await call('DELETE', '/release%2F**')).status, 404)
  })
})

t.test('pushes that a protected branch refuses', async (t) => {
  const alice = await server.as('alice')
  const bob = await server.as('bob')
  await alice.user.createCurrentUserRepo({ name: 'pushes', auto_init: true })
  await alice.repos.repoAddCollaborator('alice', 'pushes', 'bob', { permission: 'write' })
  const work = await workTree(t, server.gitUrl('alice', 'alice/pushes'))
  await work.git('remote', 'add', 'bob', server.gitUrl('bob', 'alice/pushes'))
  const first = await work.git('rev-parse', 'HEAD')
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/release/1', 'HEAD:refs/heads/topic')
  await alice.repos.repoCreateBranchProtection('alice', 'pushes', {
    rule_name: 'release/*',
    enable_push: true,
    enable_push_whitelist: true,
    push_whitelist_usernames: ['bob'],
    enable_merge_whitelist: true,
    merge_whitelist_usernames: ['alice'],
    enable_status_check: true,
    status_check_contexts: ['ci'],
  })
  await alice.repos.repoCreateBranchProtection('alice', 'pushes', { rule_name: 'main' })
  const tipOf = async (branch: string) =>
    (await server.anonymous.repos.repoGetBranch('alice', 'pushes', branch)).data.commit?.id
  const second = await work.commit('Second', { 'b.txt': 'b\n' })

  await t.test(
    'pushes without permission, also by admins; one bad ref refuses all of an atomic push',
    async (t) => {
      for (const [remote, branch] of [
        ['origin', 'main'],
        ['bob', 'main'],
        ['origin', 'release/1'],
        ['origin', 'release/new'],
      ] as const) {
        const refs = [`HEAD:refs/heads/${branch}`, 'HEAD:refs/heads/topic']
        const push = work.git('push', '-q', '--atomic', remote, ...refs)
        await t.rejects(push, /the branch is protected/, `${remote} ${branch}`)
      }
      t.equal(await tipOf('main'), first)
      t.equal(await tipOf('release/1'), first)
      t.equal(await tipOf('topic'), first)
    },
  )

  await t.test('users on the whitelist push, and others push only to other branches', async (t) => {
    await work.git('push', '-q', 'bob', 'HEAD:refs/heads/release/1', 'HEAD:refs/heads/release/2')
    t.equal(await tipOf('release/1'), second)
    t.equal(await tipOf('release/2'), second)
    await work.git('push', '-q', 'origin', 'HEAD:refs/heads/topic', 'HEAD:refs/heads/release/a/b')
    t.equal(await tipOf('topic'), second)
    t.equal(await tipOf('release/a/b'), second, 'a star stops at slashes')
  })

  await t.test(
    "its history is not rewritten; other branches follow git's rules, in the same push or alone",
    async (t) => {
      await work.git('checkout', '-q', '--detach', first)
      const other = await work.commit('Another second', { 'c.txt': 'c\n' })
      const rewrite = work.git('push', '-q', '-f', 'bob', `${other}:refs/heads/release/1`)
      await t.rejects(rewrite, /non-fast-forward/)
      await t.rejects(
        work.git('push', '-q', '-f', 'bob', `${first}:refs/heads/release/1`),
        /non-fast-forward/,
      )
      t.equal(await tipOf('release/1'), second)
      const both = [`${other}:refs/heads/topic`, `${other}:refs/heads/release/1`]
      await t.rejects(work.git('push', '-q', '-f', '--atomic', 'bob', ...both), /non-fast-forward/)
      t.equal(await tipOf('topic'), second)
      await t.rejects(work.git('push', '-q', '-f', 'bob', ...both), /non-fast-forward/)
      t.equal(await tipOf('release/1'), second)
      t.equal(await tipOf('topic'), other, 'what is not protected can be rewritten, beside what is')
      await work.git('push', '-q', '-f', 'bob', `${second}:refs/heads/topic`)
      await work.git('checkout', '-q', '--detach', second)
    },
  )

  await t.test('a user on the whitelist without write access cannot push', async (t) => {
    await alice.repos.repoDeleteCollaborator('alice', 'pushes', 'bob')
    await t.rejects(work.git('push', '-q', 'bob', 'HEAD:refs/heads/release/3'))
    await alice.repos.repoAddCollaborator('alice', 'pushes', 'bob', { permission: 'write' })
  })

  await t.test('deletions, by a push or over HTTP', async (t) => {
    const push = work.git('push', '-q', 'bob', ':refs/heads/release/2')
    await t.rejects(push, /a protected branch cannot be deleted/)
    t.equal(await statusOf(bob.repos.repoDeleteBranch('alice', 'pushes', 'release/2')), 403)
    t.equal(await statusOf(alice.repos.repoDeleteBranch('alice', 'pushes', 'release/2')), 403)
    t.equal(await tipOf('release/2'), second)
    t.equal(await statusOf(bob.repos.repoDeleteBranch('alice', 'pushes', 'release/a/b')), 204)
  })

  await t.test('a branch shows its protection and what the requester may do', async (t) => {
    const shown = async (api: typeof alice) => {
      const { data } = await api.repos.repoListBranches('alice', 'pushes')
      return new Map(data.map((branch) => [branch.name, branch]))
    }
    const release = { protected: true, effective_branch_protection_name: 'release/*' }
    const checks = { enable_status_check: true, status_check_contexts: ['ci'] }
    const open = { protected: false, effective_branch_protection_name: '', enable_status_check: false }
    const asBob = await shown(bob)
    t.match(asBob.get('release/1'), { ...release, ...checks, user_can_push: true, user_can_merge: false })
    t.match(asBob.get('main'), { protected: true, user_can_push: false, user_can_merge: true })
    t.match(asBob.get('topic'), { ...open, user_can_push: true, user_can_merge: true })
    t.match((await shown(alice)).get('release/1'), { ...release, user_can_push: false, user_can_merge: true })
    const anonymous = await shown(server.anonymous)
    t.match(anonymous.get('topic'), { ...open, user_can_push: false, user_can_merge: false })
    const { data: one } = await bob.repos.repoGetBranch('alice', 'pushes', 'release/1')
    t.match(one, { ...release, ...checks, user_can_push: true, user_can_merge: false })
  })

  await t.test('the rule does not apply to tags, and ends with its removal', async (t) => {
    await work.git('push', '-q', 'origin', 'HEAD:refs/tags/main')
    await alice.repos.repoDeleteBranchProtection('alice', 'pushes', 'release/*')
    await work.git('push', '-q', 'origin', 'HEAD:refs/heads/release/3')
    t.equal(await statusOf(bob.repos.repoDeleteBranch('alice', 'pushes', 'release/3')), 204)
    await work.git('push', '-q', 'bob', ':refs/heads/release/2')
    t.equal(await statusOf(server.anonymous.repos.repoGetBranch('alice', 'pushes', 'release/2')), 404)
  })
})

t.test('a branch that requires signed commits refuses unsigned commits', async (t) => {
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'signed', auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/signed'))
  const rule = { rule_name: 'main', enable_push: true, require_signed_commits: true }
  await alice.repos.repoCreateBranchProtection('alice', 'signed', rule)
  await work.commit('Not signed', { 'a.txt': 'a\n' })
  await t.rejects(work.git('push', '-q', 'origin', 'HEAD:refs/heads/main'), /signed/)
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/topic')

  await work.git('reset', '-q', '--hard', 'origin/main')
  await work.git('config', 'gpg.format', 'ssh')
  await work.git('config', 'user.signingKey', key.path)
  await work.git('commit', '-q', '-S', '--allow-empty', '-m', 'Signed')
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/main')
  const signed = await work.git('rev-parse', 'HEAD')
  t.equal((await alice.repos.repoGetBranch('alice', 'signed', 'main')).data.commit?.id, signed)

  await t.test('a new branch may start at an existing commit, over the API and by a push', async (t) => {
    await alice.repos.repoCreateBranchProtection('alice', 'signed', { ...rule, rule_name: 'new/*' })
    await work.git('push', '-q', 'origin', 'origin/topic:refs/heads/new/pushed')
    const branch = { old_ref_name: 'topic', new_branch_name: 'new/made' }
    t.equal(await statusOf(alice.repos.repoCreateBranch('alice', 'signed', branch)), 201)
  })
})

t.test('`branch_protections/priority`: the first matching rule of the new order decides', async (t) => {
  const alice = await server.as('alice')
  const bob = await server.as('bob')
  await alice.user.createCurrentUserRepo({ name: 'ordered', auto_init: true })
  await alice.repos.repoAddCollaborator('alice', 'ordered', 'bob', { permission: 'write' })
  const path = '/api/v1/repos/alice/ordered/branch_protections'
  const call = async (login: string, method: string, below: string, body?: object) => {
    const init = { method, ...(body && { body: JSON.stringify(body) }) }
    const answer = await server.fetch(login, `${path}${below}`, init)
    const text = await answer.text()
    return { status: answer.status, json: text === '' ? undefined : JSON.parse(text) }
  }
  const add = async (option: object): Promise<number> => (await call('alice', 'POST', '', option)).json.id
  const exact = await add({ rule_name: 'main' })
  const pattern = await add({ rule_name: 'm*', enable_push: true })
  const order = (ids: unknown, login = 'alice') => call(login, 'POST', '/priority', { ids })
  const listed = async () => {
    const { json } = await call('alice', 'GET', '')
    return json.map((one: { rule_name: string; priority: number }) => [one.rule_name, one.priority])
  }
  const main = async () => (await bob.repos.repoGetBranch('alice', 'ordered', 'main')).data
  t.match(await main(), { effective_branch_protection_name: 'main', user_can_push: false })

  t.equal((await order([pattern, exact])).status, 204)
  t.same(await listed(), [
    ['m*', 1],
    ['main', 2],
  ])
  t.match(await main(), { effective_branch_protection_name: 'm*', user_can_push: true })

  for (const [ids, message] of [
    [[exact, exact], /^ids: a branch protection is named twice/],
    [[exact, 8_000_000], /^ids: no branch protection has the id 8000000/],
    [['main'], /^ids/],
    [undefined, /^ids/],
  ] as const) {
    t.match(await order(ids), { status: 422, json: { message } }, JSON.stringify(ids))
  }
  t.equal((await order([exact, pattern], 'bob')).status, 403)
  t.same(await listed(), [
    ['m*', 1],
    ['main', 2],
  ])
  t.equal((await order([pattern])).status, 204, 'what is not named keeps its number')
  t.equal((await call('alice', 'DELETE', '/m*')).status, 204)
  t.equal((await order([exact])).status, 204)
  t.same(await listed(), [['main', 1]])
  const again = await add({ rule_name: 'm*' })
  t.not(again, pattern, 'an id is not reused')
})
