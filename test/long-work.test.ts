import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import { nextPiece, workInTurn } from '../src/long-work.ts'

/** As long as a piece of work that fills a turn of the event loop. */
function busy(): void {
  for (const end = performance.now() + 5; performance.now() < end; );
}

/** Counts the turns of the event loop until it is stopped. */
function countTurns() {
  const turns = { now: 0, stop: () => clearImmediate(next) }
  let next = setImmediate(function count() {
    turns.now += 1
    next = setImmediate(count)
  })
  return turns
}

t.test('long work is done one piece in each turn of the event loop, and keys take turns', async (t) => {
  const done: string[] = []
  const turn = countTurns()
  const turns: number[] = []
  async function work(key: string, pieces: number): Promise<void> {
    for (let i = 0; i < pieces; i++) {
      await nextPiece(key)
      busy()
      done.push(key)
      turns.push(turn.now)
    }
  }
  await Promise.all([work('many', 3), work('many', 3), work('many', 3), work('few', 3)])
  turn.stop()
  t.equal(new Set(turns).size, 12, 'never two in one turn')
  t.ok(done.lastIndexOf('few') < 7, `who has little to do does not wait for who has much: ${done}`)
  await work('later', 1)
  t.equal(done.at(-1), 'later')
})

t.test('requests begin at once while a turn has time; then networks take turns', async (t) => {
  await nextTurn()
  const turn = countTurns()
  const begun: { key: string; turn: number }[] = []
  const first = turn.now
  const began = performance.now()
  const one = (key: string) =>
    new Promise<void>((resolve) => {
      workInTurn(key, async () => {
        begun.push({ key, turn: turn.now })
        // What a request does after an answer that is there already belongs to its work.
        await Promise.resolve()
        await Promise.resolve()
        busy()
        resolve()
      })
    })
  const short: string[] = []
  for (const name of ['a', 'b']) workInTurn('short', () => short.push(name))
  t.strictSame(short, ['a', 'b'], 'short ones do not wait')
  // On a machine that stands still here, the turn has no time left.
  const isLate = performance.now() - began > 1
  await one('many')
  t.match(begun, [{ key: 'many', turn: isLate ? Number : first }])
  await Promise.all([...Array.from({ length: 6 }, () => one('many')), one('few')])
  turn.stop()
  const place = begun.findIndex(({ key }) => key === 'few')
  t.ok(place <= 2, `one of another network does not wait for all of them: ${place}`)
  t.equal(new Set(begun.map((each) => each.turn)).size, begun.length, 'no turn has two long ones')
})
