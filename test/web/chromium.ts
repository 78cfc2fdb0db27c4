/**
 * The browser for the tests of the page: Debian's chromium, or the path in CHROMIUM. The tests install
 * nothing.
 */
import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'
import type { Test } from 'tap'

const BROWSERS = [
  process.env.CHROMIUM,
  ...['chromium', 'chromium-browser', 'google-chrome'].map((name) => `/usr/bin/${name}`),
]

/** The reason for skipping the browser tests when `launchBrowser` finds no browser. */
export const NO_BROWSER = 'no browser found: `apt-get install chromium`, or set CHROMIUM to the path of one'

/** Starts a browser, which is closed at the test's end. Undefined when no browser is installed. */
export async function launchBrowser(t: Pick<Test, 'teardown'>): Promise<Browser | undefined> {
  const executablePath = BROWSERS.find((path) => path !== undefined && existsSync(path))
  if (executablePath === undefined) return undefined
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  t.teardown(() => browser.close())
  return browser
}
