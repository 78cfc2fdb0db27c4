import t from 'tap'
import { lostTextReporter } from '../../../src/events/sealing/lost-texts.ts'

t.test('of many texts without a key, one per minute is logged', async (t) => {
  const lines: object[] = []
  let time = 0
  const report = lostTextReporter({ error: (facts) => lines.push(facts) }, () => time)
  for (let revision = 0; revision < 1000; revision++) report({ stream: 'issue-1.1', revision })
  t.strictSame(lines, [{ stream: 'issue-1.1', revision: 0, unnamed: 0 }])
  time = 60_000
  for (let revision = 0; revision < 1000; revision++) report({ stream: 'issue-1.2', revision })
  t.strictSame(lines.slice(1), [{ stream: 'issue-1.2', revision: 0, unnamed: 999 }])
})
