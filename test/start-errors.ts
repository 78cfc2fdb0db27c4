/** The output of a start that cannot use a store: one line that names the setting and shows no password. */
import type { Test } from 'tap'
import { explain } from '../src/cli/explain.ts'

/** `start` uses the store at a URL as a start does, and closes it. */
export function startErrors(
  setting: 'EVENTSTORE_URL' | 'MONGODB_URL',
  start: (url: string) => Promise<void>,
) {
  /** The output when a start with this URL fails. */
  async function printed(url: string): Promise<string> {
    try {
      await start(url)
    } catch (error) {
      return explain(error)
    }
    return 'no error'
  }

  return {
    printed,
    async refused(t: Test, url: string, message: RegExp): Promise<void> {
      const text = await printed(url)
      t.match(text, message)
      t.match(text, setting, 'names the setting')
      t.notMatch(text, /\n/, 'is one line')
      t.notMatch(text, /hunter2/, 'shows no password')
    },
  }
}
