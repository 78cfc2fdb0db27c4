import t from 'tap'
import { inWords, planOf } from '../../faults/plan.ts'
import { pointsOf, SAGA_NAMES } from '../../faults/points.ts'

const options = { rounds: 200, nodes: 3, stores: 2, points: pointsOf(SAGA_NAMES) }
const inLines = (seed: number, nodes = 3) =>
  planOf({ ...options, nodes, seed }).map((fault) => inWords(fault, nodes, ['the log', 'the documents']))

t.test('the same seed gives the same plan of faults, and another seed another plan', async (t) => {
  t.strictSame(inLines(7), inLines(7))
  t.not(inLines(7).join(), inLines(8).join())
})

t.test(
  'every second fault is at a named point, and each point between two steps of a saga is used',
  async (t) => {
    const plan = planOf({ ...options, seed: 7 })
    const reached = plan.flatMap((fault) => (fault.how === 'point' ? [fault.point] : []))
    t.equal(reached.length, 100)
    for (const point of options.points) t.ok(reached.includes(point), `${point.saga}: ${point.step}`)
    t.ok(SAGA_NAMES.includes('push') && SAGA_NAMES.includes('merge') && SAGA_NAMES.includes('rebuild'))
  },
)

t.test('nodes and stores are killed, stopped and ended; a single node is only killed', async (t) => {
  const lines = inLines(7)
  for (const what of [
    'killed node 1',
    'killed node 2',
    'stopped node 3',
    'ended node 1',
    'killed the log',
    'stopped the documents',
    'killed node 2 and the log',
    'killed a node when',
  ]) {
    t.ok(
      lines.some((line) => line.startsWith(what)),
      what,
    )
  }
  const others = inLines(7, 1).filter((line) => !/^killed (the server|the log|the documents)/.test(line))
  t.strictSame(others, [])
})
