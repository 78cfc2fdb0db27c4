import t from 'tap'
import { nextPiece } from '../src/long-work.ts'

t.test('long work is done one piece in each turn of the event loop, and keys take turns', async (t) => {
  const done: string[] = []
  let turn = 0
  const turns: number[] = []
  let isOver = false
  const count = () => {
    turn += 1
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  async function work(key: string, pieces: number): Promise<void> {
    for (let i = 0; i < pieces; i++) {
      await nextPiece(key)
      done.push(key)
      turns.push(turn)
    }
  }
  await Promise.all([work('many', 3), work('many', 3), work('many', 3), work('few', 3)])
  isOver = true
  t.equal(new Set(turns).size, 12, 'never two in one turn')
  t.ok(done.lastIndexOf('few') < 7, `who has little to do does not wait for who has much: ${done}`)
  await work('later', 1)
  t.equal(done.at(-1), 'later')
})
