import t from 'tap'
import { explain } from '../../src/cli/explain.ts'
import { StoreUnavailable } from '../../src/events/store/event-store.ts'

t.test('a command that meets a full disk says in one line that it is full, and what to do', (t) => {
  const inFile = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
  const inStore = new StoreUnavailable('the log', { cause: new Error('database or disk is full') })
  t.equal(
    explain(inFile),
    'mergelog: a disk is full: free some space, and run the command again (ENOSPC: no space left on device, write)',
  )
  t.equal(explain(inStore), 'mergelog: a disk is full: free some space, and run the command again (the log)')
  t.end()
})
