import t from 'tap'
import { movedLine } from '../../../src/git/diff/moved-lines.ts'

const hunk = (oldStart: number, oldCount: number, newStart: number, newCount: number) => ({
  oldStart,
  oldCount,
  newStart,
  newCount,
})

t.test('a line moves with additions and removals before it, and is gone when it changes', async (t) => {
  // Two lines added after line 3, lines 6 and 7 replaced by one, line 10 removed.
  const hunks = [hunk(3, 0, 4, 2), hunk(6, 2, 8, 1), hunk(10, 1, 10, 0)]
  const moved = [1, 3, 4, 5, 6, 7, 8, 9, 10, 11].map((line) => movedLine(hunks, line))
  t.strictSame(moved, [1, 3, 6, 7, undefined, undefined, 9, 10, undefined, 11])
  t.equal(movedLine([hunk(0, 0, 1, 5)], 1), 6, 'lines added at the beginning')
  t.equal(movedLine([], 7), 7)
})
