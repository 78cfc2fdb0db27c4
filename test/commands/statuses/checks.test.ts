import t from 'tap'
import { checksDecider, decidePost, MAX_CONTEXTS } from '../../../src/commands/statuses/checks.decider.ts'
import type { CheckEvent, CommitState } from '../../../src/events/catalog/statuses.ts'
import { specify } from '../../specification.ts'

function posted(context: string, state: CommitState, id = 1): CheckEvent {
  return {
    type: 'CommitStatusPosted',
    data: {
      id,
      repoId: 5,
      sha: 'a'.repeat(40),
      context,
      state,
      description: '',
      targetUrl: '',
      creator: { id: 1, login: 'alice' },
    },
  }
}

t.test('every status is an event, even with the same state', async (t) => {
  const { given } = specify(t, checksDecider)
  const again = posted('ci', 'success', 2)
  given()
    .when((state) => decidePost(state, posted('ci', 'success').data))
    .thenEvents(posted('ci', 'success'))
  given(posted('ci', 'success'))
    .when((state) => decidePost(state, again.data))
    .thenEvents(again)
})

t.test('the last state of each context counts', async (t) => {
  const events = [posted('ci', 'pending'), posted('lint', 'success'), posted('ci', 'failure')]
  const state = events.reduce(checksDecider.evolve, checksDecider.initialState)
  t.same(
    [...state.posted],
    [
      ['ci', 'failure'],
      ['lint', 'success'],
    ],
  )
  t.equal(checksDecider.initialState.posted.size, 0, 'states are never changed')
})

t.test('names that objects have are names like others', async (t) => {
  const state = checksDecider.evolve(checksDecider.initialState, posted('__proto__', 'failure'))
  t.equal(state.posted.get('__proto__'), 'failure')
  t.equal(state.posted.get('constructor'), undefined)
})

t.test('a commit has a limited number of contexts; its present contexts still change', async (t) => {
  const full = Array.from({ length: MAX_CONTEXTS }, (_, i) => posted(`ci-${i}`, 'pending'))
  const { given } = specify(t, checksDecider)
  given(...full)
    .when((state) => decidePost(state, posted('one more', 'success').data))
    .thenRefused('unprocessable', `context: a commit can have statuses of at most ${MAX_CONTEXTS} contexts`)
  given(...full)
    .when((state) => decidePost(state, posted('ci-7', 'success').data))
    .thenEvents(posted('ci-7', 'success'))
})
