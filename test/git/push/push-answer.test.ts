import t from 'tap'
import { bandPackets } from '../../../src/git/http/pkt-line.ts'
import { withReason } from '../../../src/git/push/push-answer.ts'

const push = (...capabilities: string[]) => ({ capabilities: new Set(capabilities) })

t.test('a push for which a program of git had no disk space reports it in words', (t) => {
  const answer = bandPackets(2, Buffer.from('fatal: write error: No space left on device\n'))
  const shown = withReason(answer, push('side-band-64k')).toString()
  t.match(shown, /the server's disk is full; try again later\n/)
  t.ok(shown.endsWith(answer.toString()), 'before what git says')
  t.same(withReason(answer, push()), answer, "a client that shows no such words gets git's answer")
  const other = bandPackets(2, Buffer.from('fatal: early EOF\n'))
  t.same(withReason(other, push('side-band-64k')), other)
  t.end()
})
