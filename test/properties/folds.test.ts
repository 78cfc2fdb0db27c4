/** Folds are deterministic and idempotent, and agree with each other and with the deciders, for any log. */
import assert from 'node:assert/strict'
import fc from 'fast-check'
import t from 'tap'
import { entriesOf, hasId, valueAt } from '../../src/commands/execution/id-map.ts'
import { VERDICTS } from '../../src/events/catalog/reviews.ts'
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import { commentFold } from '../../src/projections/models/comments/comments.fold.ts'
import { isInHistory } from '../../src/projections/models/history/history.fold.ts'
import { issueId } from '../../src/projections/models/issues/issue-selection.ts'
import { issueFold } from '../../src/projections/models/issues/issues.fold.ts'
import { labelFold } from '../../src/projections/models/labels/labels.fold.ts'
import { milestoneFold } from '../../src/projections/models/milestones/milestones.fold.ts'
import { activityFold } from '../../src/projections/models/notifications/activities.fold.ts'
import {
  participationFold,
  participationId,
} from '../../src/projections/models/notifications/participations.fold.ts'
import { pullFold } from '../../src/projections/models/pull-requests/pulls.fold.ts'
import { reactionFold } from '../../src/projections/models/reactions/reactions.fold.ts'
import { followFold } from '../../src/projections/models/repositories/follows.fold.ts'
import { repositoryFold } from '../../src/projections/models/repositories/repositories.fold.ts'
import { reviewFold } from '../../src/projections/models/reviews/reviews.fold.ts'
import { commitChecksFold } from '../../src/projections/models/statuses/commit-statuses.fold.ts'
import { moduleVersionsFold } from '../../src/projections/models/upgrade/module-versions.fold.ts'
import { upgradePlanFold } from '../../src/projections/models/upgrade/upgrade-plans.fold.ts'
import { accountFold } from '../../src/projections/models/users/accounts.fold.ts'
import { tokenFold } from '../../src/projections/models/users/tokens.fold.ts'
import { webhookFold } from '../../src/projections/models/webhooks/webhooks.fold.ts'
import type { Fold, ReadModel } from '../../src/projections/projector/read-model.ts'
import type { AnyCollection, Change, Stored } from '../../src/projections/store/read-store.ts'
import { READ_MODELS } from '../../src/projections/views/views.ts'
import { histories, played } from './histories.ts'
import { frozen, SETTINGS, type World } from './world.ts'

type Log = readonly Recorded<DomainEvent>[]
/** The documents of one read model by id, as JSON. */
type Documents = Map<string, { position: number; json: string }>

/** A store of these documents. They come frozen: a fold that changes one in place throws. */
const storeOf = (documents: Documents) => ({
  async getMany<D extends object>(_: AnyCollection, ids: readonly string[]): Promise<Stored<D>[]> {
    return ids.flatMap((id) => {
      const stored = documents.get(id)
      return stored === undefined
        ? []
        : [{ id, position: stored.position, body: frozen(JSON.parse(stored.json)) }]
    })
  },
})

/** The changes of the events. Fails when the fold throws. */
async function changesOf(model: ReadModel, events: Log, documents: Documents): Promise<readonly Change[]> {
  // Like the projector, which passes only handled events to a model.
  const { changes, poison } = await model.advance(events.filter(model.handles), storeOf(documents))
  if (poison !== undefined)
    throw new Error(`${model.name} stops at ${poison.event.type}`, { cause: poison.error })
  return changes
}

/** Like a store, which keeps a document with a later position. */
function apply(changes: readonly Change[], documents: Documents): void {
  for (const change of changes) {
    if (change.op === 'delete') documents.delete(change.id)
    else if (change.position >= (documents.get(change.id)?.position ?? 0))
      documents.set(change.id, { position: change.position, json: JSON.stringify(change.body) })
  }
}

/** The documents after these batches. */
async function folded(model: ReadModel, ...batches: readonly Log[]): Promise<Documents> {
  const documents: Documents = new Map()
  for (const batch of batches) apply(await changesOf(model, batch, documents), documents)
  return documents
}

/** By id, because the order inside a map does not matter. */
const sorted = (documents: Documents) => [...documents].sort(([a], [b]) => (a < b ? -1 : 1))

/** A rule for each read model and the log of each world. `early` and `late` are places in the log. */
function eachModel(
  title: string,
  rule: (model: ReadModel, log: Log, places: { early: number; late: number }) => Promise<void>,
): void {
  t.test(title, async () => {
    const share = fc.double({ min: 0, max: 1, noNaN: true })
    const property = fc.asyncProperty(histories, share, share, async (history, a, b) => {
      const { log } = played(history)
      const [early, late] = [Math.floor(log.length * Math.min(a, b)), Math.floor(log.length * Math.max(a, b))]
      for (const model of READ_MODELS) await rule(model, log, { early, late })
    })
    await fc.assert(property, SETTINGS)
  })
}

eachModel(
  'deterministic: how the log is cut into batches makes no difference',
  async (model, log, { early, late }) => {
    const once = sorted(await folded(model, log))
    assert.deepEqual(sorted(await folded(model, log)), once, model.name)
    const batches = [log.slice(0, early), log.slice(early, late), log.slice(late)]
    assert.deepEqual(sorted(await folded(model, ...batches)), once, model.name)
    assert.deepEqual(sorted(await folded(model, ...log.map((event) => [event]))), once, model.name)
  },
)

eachModel('idempotent: what a document has taken already changes nothing', async (model, log, { early }) => {
  const documents = await folded(model, log)
  const once = sorted(documents)
  const again = await changesOf(model, log.slice(early), documents)
  // A document that an event creates is not read first: a redelivery writes it again.
  const changed = again.filter(
    (change) => change.op === 'put' && change.position > (documents.get(change.id)?.position ?? Infinity),
  )
  assert.deepEqual(changed, [], model.name)
  apply(again, documents)
  assert.deepEqual(sorted(documents), once, model.name)
})

eachModel(
  'idempotent: a batch of which a crash left a part is written again',
  async (model, log, { early, late }) => {
    const documents = await folded(model, log.slice(0, early))
    const changes = await changesOf(model, log.slice(early, late), documents)
    apply(
      changes.filter((_, i) => i % 2 === 0),
      documents,
    )
    apply(await changesOf(model, log.slice(early), documents), documents)
    assert.deepEqual(sorted(documents), sorted(await folded(model, log)), model.name)
  },
)

eachModel('every document survives JSON', async (model, log) => {
  for (const change of await changesOf(model, log, new Map())) {
    if (change.op === 'put')
      assert.deepEqual(JSON.parse(JSON.stringify(change.body)), change.body, model.name)
  }
})

eachModel('when a document was updated never goes back, also when the clock does', async (model, log) => {
  const noon = Date.UTC(2026, 0, 2, 12)
  const documents: Documents = new Map()
  const latest = new Map<string, string>()
  for (const [i, event] of log.entries()) {
    const metadata = { ...event.metadata, at: new Date(noon - i * 1000).toISOString() }
    for (const change of await changesOf(model, [{ ...event, metadata }], documents)) {
      apply([change], documents)
      const time = change.op === 'put' && 'updatedAt' in change.body ? `${change.body.updatedAt}` : ''
      if (change.op === 'put') assert.ok(time >= (latest.get(change.id) ?? ''), `${model.name} ${event.type}`)
      latest.set(change.id, time)
    }
  }
})

/** Documents that others refer to, which exist first in a server. */
const FIRST = /^(user|org|repo|milestone)-/
/** Users' documents about an issue, which exists first. */
const LAST = /^subscription-/

/** The time of the last change is that of the last event; the others are positions in the log. */
const OF_ORDER = new Set('updatedAt since madeAt position watchedFrom namedTo seenTo marked'.split(' '))

eachModel('the order of streams that do not know each other makes no difference', async (model, log) => {
  // An entry of these is a place in the log.
  if (model.name === 'history' || model.name === 'linked_events') return
  const rest = log.filter(({ stream }) => !FIRST.test(stream))
  const names = [...new Set(rest.map(({ stream }) => stream))].reverse()
  const streams = [...names.filter((name) => !LAST.test(name)), ...names.filter((name) => LAST.test(name))]
  const other = [
    ...log.filter(({ stream }) => FIRST.test(stream)),
    ...streams.flatMap((name) => rest.filter(({ stream }) => stream === name)),
  ]
  const [there, here] = await Promise.all(
    [log, other.map((event, i) => ({ ...event, position: i + 1 }))].map(async (events) =>
      sorted(await folded(model, events)).map(([id, { json }]) => {
        const fields = Object.entries(JSON.parse(json)).filter(([name]) => !OF_ORDER.has(name))
        return { id, body: Object.fromEntries(fields) }
      }),
    ),
  )
  assert.deepEqual(here, there, model.name)
})

/** The documents of a fold, without a store. */
function documentsOf<D extends object>(fold: Fold<D>, log: Log): Map<string, D> {
  const documents = new Map<string, D>()
  for (const event of log) {
    for (const id of fold.touches(event)) {
      const next = fold.evolve(documents.get(id), event, id)
      if (next === undefined) documents.delete(id)
      else documents.set(id, frozen(next))
    }
  }
  return documents
}

function always(title: string, rule: (world: World) => void): void {
  t.test(title, async () => {
    fc.assert(
      fc.property(histories, (history) => rule(played(history))),
      SETTINGS,
    )
  })
}

/** The part of a document that has these fields. */
const partOf = (document: object | undefined, like: object) =>
  document && Object.fromEntries(Object.keys(like).map((key) => [key, Reflect.get(document, key)]))

always('a read model handles every event that touches its documents', ({ log }) => {
  for (const model of READ_MODELS) {
    const others = log.filter((event) => !model.handles(event))
    assert.ok(model.name !== 'history' || !others.some(isInHistory))
    model.advance(others, storeOf(new Map())).then(({ touched }) => assert.deepEqual(touched, []))
  }
})

always('a repository and a milestone count the documents of their issues', ({ log }) => {
  const issues = [...documentsOf(issueFold, log).values()]
  const counts = (of: typeof issues) => [
    of.filter((one) => !one.closed).length,
    of.filter((one) => one.closed).length,
  ]
  for (const repository of documentsOf(repositoryFold, log).values()) {
    const own = issues.filter(({ repoId }) => repoId === repository.id)
    const { openIssues, closedIssues, openPulls, closedPulls } = repository
    assert.deepEqual([openIssues, closedIssues], counts(own.filter(({ isPull }) => !isPull)))
    assert.deepEqual([openPulls, closedPulls], counts(own.filter(({ isPull }) => isPull)))
  }
  for (const { id, openIssues, closedIssues } of documentsOf(milestoneFold, log).values()) {
    assert.deepEqual(
      [openIssues, closedIssues],
      counts(issues.filter(({ milestoneId }) => milestoneId === id)),
    )
  }
  const comments = [...documentsOf(commentFold, log).values()]
  const reviews = [...documentsOf(reviewFold, log).values()].filter(({ kind }) =>
    VERDICTS.some((verdict) => verdict === kind),
  )
  for (const issue of issues) {
    const isOwn = ({ repoId, index }: { repoId: number; index: number }) =>
      repoId === issue.repoId && index === issue.index
    assert.equal(issue.comments, comments.filter(isOwn).length + reviews.filter(isOwn).length)
  }
})

always('the two documents of a pull request say the same', ({ log }) => {
  const issues = documentsOf(issueFold, log)
  for (const [id, pull] of documentsOf(pullFold, log)) {
    const { isPull, assigneeIds, mergedAt, reviewerIds: _, ...same } = issues.get(id) ?? assert.fail()
    const { requestedReviewerIds: asked, mentionedIds: _mentioned, ...common } = same
    assert.deepEqual(partOf(pull, common), common)
    const teams = (pull.requestedTeams ?? []).map((team) => team.id)
    assert.deepEqual(new Set(asked), new Set([...pull.requestedReviewerIds, ...teams]))
    assert.deepEqual([isPull, mergedAt], [true, pull.merged?.at ?? null])
    assert.deepEqual(
      assigneeIds,
      pull.assignees.map((assignee) => assignee.id),
    )
  }
})

always('documents of issues and pull requests say what their deciders know', (world) => {
  const { log, issues, pulls } = world
  const [issueDocuments, pullDocuments] = [documentsOf(issueFold, log), documentsOf(pullFold, log)]
  for (const repoId of [1, 2]) {
    for (const index of [1, 2, 3, 4]) {
      const issue = issues.now({ repoId, index })
      const pull = pulls.now({ repoId, index })
      if (issue.status !== 'none') {
        const { status, ...state } = issue
        assert.deepEqual(partOf(issueDocuments.get(`${repoId}.${index}`), state), state)
        assert.equal(issueDocuments.get(`${repoId}.${index}`)?.state, status)
      }
      const document = pullDocuments.get(`${repoId}.${index}`)
      assert.equal(document === undefined, pull.status === 'none')
      if (pull.status === 'none') continue
      const { mergeability, merging, headBranchDeleted: _, headBranchKept: _kept, ...more } = pull
      const { reviews: _reviews, ...state } = more
      assert.deepEqual(partOf(document, state), state)
      assert.equal(document?.merging, merging !== null)
      assert.equal(document.mergeable, mergeability.mergeable && pull.status !== 'merged')
    }
  }
})

always('documents of repositories, labels and milestones say what their deciders know', (world) => {
  const { log } = world
  const repositories = documentsOf(repositoryFold, log)
  for (const id of [1, 2]) {
    const state = world.repositories.now(id)
    const document = repositories.get(`${id}`)
    assert.equal(document === undefined, state.status !== 'active')
    if (state.status !== 'active' || document === undefined) continue
    const { ownerVisibility, parentId, settings, protections } = state
    const known = { ...settings, ownerVisibility, parentId, protections, ownerId: state.owner.id }
    assert.deepEqual(partOf(document, known), known)
    const collaborators = Object.entries(document.collaborators).map(([key, { permission }]) => [
      key,
      permission,
    ])
    assert.deepEqual(Object.fromEntries(collaborators), state.collaborators)
    assert.deepEqual(document.transfer ?? null, state.transfer)
  }
  const [labels, milestones] = [documentsOf(labelFold, log), documentsOf(milestoneFold, log)]
  for (const id of [1, 2, 3]) {
    const label = world.labels.now(id)
    const known = label.status === 'active' ? label.label : undefined
    assert.deepEqual(known && partOf(labels.get(`${id}`), known), known)
    assert.equal(labels.has(`${id}`), known !== undefined)
    const milestone = world.milestones.now(id)
    const due = milestone.status === 'active' ? milestone.milestone : undefined
    assert.deepEqual(due && partOf(milestones.get(`${id}`), due), due)
    assert.equal(milestones.has(`${id}`), due !== undefined)
  }
})

always('documents of webhooks say what their decider knows', ({ log, webhooks }) => {
  const documents = documentsOf(webhookFold, log)
  for (const id of [1, 2, 3]) {
    const state = webhooks.now(id)
    const known = state.status === 'active' ? state.webhook : undefined
    assert.deepEqual(known && partOf(documents.get(`${id}`), known), known)
    assert.equal(documents.has(`${id}`), known !== undefined)
  }
})

always('documents of accounts and tokens say what their deciders know', ({ log, users, organizations }) => {
  const [accounts, tokens] = [documentsOf(accountFold, log), [...documentsOf(tokenFold, log).values()]]
  for (const id of [1, 2, 3]) {
    const state = users.now(id)
    const account = accounts.get(`${id}`)
    assert.equal(account?.deleted, state.status === 'missing' ? undefined : state.status === 'deleted')
    if (state.status !== 'existing') continue
    const known = { ...state.settings, ...state.user, passwordId: state.passwordIds.at(-1) ?? null }
    assert.deepEqual(partOf(account, known), known)
    const own = tokens
      .filter(({ userId }) => userId === id)
      .map(({ id: tokenId, name }): [number, string] => [tokenId, name])
    assert.deepEqual(
      new Map(own),
      new Map([...entriesOf(state.tokens)].map(([key, { name }]) => [key, name])),
    )
  }
  const organization = organizations.now(9)
  assert.equal(accounts.get('9')?.deleted ?? false, organization.status === 'deleted')
  if (organization.status !== 'active') {
    for (const { organizationIds, publicOrganizationIds, teamIds } of accounts.values()) {
      assert.deepEqual([organizationIds, publicOrganizationIds, teamIds], [[], [], []])
    }
    return
  }
  for (const { id, ownedIds, memberships, organizationIds, publicOrganizationIds } of accounts.values()) {
    const isPublic: boolean = organizationIds.includes(9) && hasId(organization.publicMembers, id)
    assert.deepEqual(publicOrganizationIds, isPublic ? [9] : [])
    assert.equal(memberships['9'], valueAt(organization.members, id))
    assert.equal(ownedIds.includes(9), valueAt(organization.members, id) === 'admin')
  }
  for (const [id, permission] of entriesOf(organization.members)) {
    assert.equal(accounts.get(`${id}`)?.memberships['9'], permission)
  }
  for (const [id, { settings, members: inTeam }] of entriesOf(organization.teams)) {
    const { permission, allRepositories, canCreateRepositories } = settings
    const grant = { organizationId: 9, permission, allRepositories, canCreateRepositories }
    for (const userId of [1, 2, 3]) {
      const account = accounts.get(`${userId}`)
      assert.deepEqual(account?.teams[`${id}`], hasId(inTeam, userId) ? grant : undefined)
      assert.equal(account?.teamIds.includes(id) ?? false, hasId(inTeam, userId))
    }
  }
})

always('who hears of an issue is the same in the documents of issues and of people', ({ log }) => {
  const activities = documentsOf(activityFold, log)
  // Participants of a deleted issue are removed later.
  const hears = [...documentsOf(participationFold, log)].flatMap(([id, { active, repoId, index }]) =>
    active && activities.has(issueId(repoId, index)) ? [id] : [],
  )
  const told = [...activities.values()].flatMap((activity) =>
    activity.participants.map((userId) => participationId(activity, userId)),
  )
  assert.deepEqual(new Set(told), new Set(hears))
})

always('documents of reactions, stars and watching say what their deciders know', ({ log, ...world }) => {
  const reactions = [...documentsOf(reactionFold, log).values()]
  for (const { repoId, index, commentId, userId, reaction } of reactions) {
    const state = world.reactions.now({ repoId, index, commentId: commentId || null })
    assert.ok(state.given.has(`${userId} ${reaction}`))
  }
  const given = new Map(
    world.reactions.steps.map(({ stream, events: [event], after }) => {
      const text = event !== undefined && 'commentId' in event.data ? event.data.commentId : null
      return [`${stream} ${text}`, after.given.size]
    }),
  )
  assert.equal(
    reactions.length,
    given.values().reduce((sum, size) => sum + size, 0),
  )
  const follows = documentsOf(followFold, log)
  for (const repository of documentsOf(repositoryFold, log).values()) {
    const people = [1, 2, 3].map((userId) => world.follows.now({ repoId: repository.id, userId }))
    const own = [...follows.values()].filter(({ repoId }) => repoId === repository.id)
    for (const kind of ['starred', 'watched'] as const) {
      const count = people.filter((state) => state[kind]).length
      assert.equal(own.filter((follow) => follow[kind]).length, count)
    }
  }
})

always('documents of comments, checks and the chain say what their deciders know', (world) => {
  const { log, comments, checks, chain } = world
  for (const [, { id: commentId, ...document }] of documentsOf(commentFold, log)) {
    const state = comments.now({ repoId: document.repoId, index: document.index, commentId })
    assert.ok(state.status === 'there')
    assert.equal(document.body, state.body)
    const files = document.attachments.map(({ createdAt: _createdAt, erased: _erased, ...file }) => file)
    assert.deepEqual(files, state.attachments)
  }
  for (const { repoId, sha, latest } of documentsOf(commitChecksFold, log).values()) {
    const states = new Map(latest.map(({ context, state }) => [context, state]))
    assert.deepEqual(states, checks.now({ repoId, sha }).posted)
  }
  const { plan, applied, moduleVersions } = chain.now('chain')
  const plans = documentsOf(upgradePlanFold, log)
  assert.deepEqual(plans.get('scheduled'), plan === null ? undefined : { state: 'scheduled', ...plan })
  for (const [name, height] of applied) {
    assert.deepEqual(plans.get(`applied-${name}`), { state: 'applied', name, height })
  }
  const modules = documentsOf(moduleVersionsFold, log).get('chain')?.moduleVersions ?? []
  assert.deepEqual(modules, moduleVersions)
})
