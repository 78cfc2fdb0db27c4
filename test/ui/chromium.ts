/** The browser that the page is tested in: Debian's chromium, or what stands in CHROMIUM. Nothing is installed here. */
import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import type { Test } from 'tap'

const BROWSERS = [
  process.env.CHROMIUM,
  ...['chromium', 'chromium-browser', 'google-chrome'].map((name) => `/usr/bin/${name}`),
]

/** Why the tests of a page are skipped where `launchBrowser` gives none. */
export const NO_BROWSER = 'no browser found: `apt-get install chromium`, or set CHROMIUM to the path of one'

/** A browser until the test's end; undefined where none is installed. */
export async function launchBrowser(t: Pick<Test, 'teardown'>): Promise<Browser | undefined> {
  const executablePath = BROWSERS.find((path) => path !== undefined && existsSync(path))
  if (executablePath === undefined) return undefined
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  t.teardown(() => browser.close())
  return browser
}
