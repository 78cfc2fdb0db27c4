/** The page in a real browser, when the server refuses live events. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { launchBrowser, NO_BROWSER } from './chromium.ts'
import { startSamplePull } from './sample-pull.ts'

const browser = await launchBrowser(t)
if (browser === undefined) t.plan(0, NO_BROWSER)
else {
  const story = await startSamplePull(t)

  /**
   * Opens the page. The first requests for live events are answered with these statuses, the later ones by
   * the server. `requests` has the method and the answer of each.
   */
  const openRefused = async (test: Pick<typeof t, 'teardown'>, statuses: readonly number[]) => {
    const context = await browser.newContext()
    test.teardown(() => context.close())
    const page = await context.newPage()
    await page.clock.install({ time: 0 })
    await page.clock.pauseAt(60_000)
    const left = [...statuses]
    const requests: string[] = []
    let loads = 0
    page.on('load', () => {
      loads += 1
    })
    await page.route('**/live?*', (route) => {
      const status = left.shift()
      requests.push(`${route.request().method()} ${status ?? 'passed'}`)
      return status === undefined ? route.continue() : route.fulfill({ status })
    })
    await page.goto(`${story.server.url}${story.page}`)
    return { page, requests, loads: () => loads }
  }

  const reaches = (page: Page, state: string) => page.locator(`[data-live="${state}"]`).waitFor()

  /** Moves the page's clock until the page reaches a state. */
  async function passTimeUntil(page: Page, state: string): Promise<void> {
    let over = false
    const arrived = reaches(page, state).then(() => {
      over = true
    })
    while (!over) {
      await page.clock.runFor(5000)
      // Waits for one iteration of the page's event loop. Unlike `evaluate`, it survives a reload of the page.
      await page.waitForFunction('true')
    }
    await arrived
  }

  t.test('a page that was refused because of a limit retries after a pause', async (t) => {
    const { page, requests, loads } = await openRefused(t, [429, 429, 503])
    await reaches(page, 'lost')
    t.strictSame(requests, ['GET 429'], 'not immediately')
    await passTimeUntil(page, 'on')
    t.strictSame(requests, ['GET 429', 'HEAD 429', 'HEAD 503', 'HEAD passed', 'GET passed'])
    t.equal(loads(), 1)
  })

  t.test('a page with more events than the server reloads', async (t) => {
    const { page, requests, loads } = await openRefused(t, [422, 422])
    await reaches(page, 'lost')
    await passTimeUntil(page, 'on')
    t.strictSame(requests, ['GET 422', 'HEAD 422', 'GET passed'])
    t.equal(loads(), 2)
  })

  t.test('a page whose reader lost access reports it and stops trying', async (t) => {
    const { page, requests } = await openRefused(t, [404, 404])
    await reaches(page, 'lost')
    await passTimeUntil(page, 'over')
    await page.clock.runFor(200_000)
    t.strictSame(requests, ['GET 404', 'HEAD 404'])
    t.match(await page.locator('#live').innerText(), 'Not live')
  })
}
