/** What the page does when it is refused live events, in a real browser. */
import type { Page } from 'playwright-core'
import t from 'tap'
import { launchBrowser, NO_BROWSER } from './chromium.ts'
import { startStory } from './story.ts'

const browser = await launchBrowser(t)
if (browser === undefined) t.plan(0, NO_BROWSER)
else {
  const story = await startStory(t)

  /** The page, whose live events are refused with these, one after the other; `asked`: how often they were asked for. */
  const refused = async (test: Pick<typeof t, 'teardown'>, statuses: readonly number[]) => {
    const context = await browser.newContext()
    test.teardown(() => context.close())
    const page = await context.newPage()
    await page.clock.install({ time: 0 })
    await page.clock.pauseAt(60_000)
    const left = [...statuses]
    const asked: string[] = []
    let loads = 0
    page.on('load', () => {
      loads += 1
    })
    await page.route('**/live?*', (route) => {
      const status = left.shift()
      asked.push(`${route.request().method()} ${status ?? 'passed'}`)
      return status === undefined ? route.continue() : route.fulfill({ status })
    })
    await page.goto(`${story.server.url}${story.page}`)
    return { page, asked, loads: () => loads }
  }

  const is = (page: Page, state: string) => page.locator(`[data-live="${state}"]`).waitFor()

  /** Lets the pauses go by until the page is in a state. */
  async function goesOnTo(page: Page, state: string): Promise<void> {
    let over = false
    const arrived = is(page, state).then(() => {
      over = true
    })
    while (!over) {
      await page.clock.runFor(5000)
      // A turn of the page's own loop; unlike `evaluate` it outlives that the page loads itself anew.
      await page.waitForFunction('true')
    }
    await arrived
  }

  t.test('a page that is refused because all places are taken asks again, after a pause', async (t) => {
    const { page, asked, loads } = await refused(t, [429, 429, 503])
    await is(page, 'lost')
    t.strictSame(asked, ['GET 429'], 'not at once')
    await goesOnTo(page, 'on')
    t.strictSame(asked, ['GET 429', 'HEAD 429', 'HEAD 503', 'HEAD passed', 'GET passed'])
    t.equal(loads(), 1)
  })

  t.test('a page that knows more events than there are begins anew', async (t) => {
    const { page, asked, loads } = await refused(t, [422, 422])
    await is(page, 'lost')
    await goesOnTo(page, 'on')
    t.strictSame(asked, ['GET 422', 'HEAD 422', 'GET passed'])
    t.equal(loads(), 2)
  })

  t.test('a page whose reader may not see it any more says so, and asks no more', async (t) => {
    const { page, asked } = await refused(t, [404, 404])
    await is(page, 'lost')
    await goesOnTo(page, 'over')
    await page.clock.runFor(200_000)
    t.strictSame(asked, ['GET 404', 'HEAD 404'])
    t.match(await page.locator('#live').innerText(), 'Not live any more')
  })
}
