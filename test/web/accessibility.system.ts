/** Every page in a real browser: axe finds nothing, nothing is wider than the screen, and the policy blocks nothing. */
import axe from 'axe-core'
import type { Browser } from 'playwright-core'
import t from 'tap'
import { basic } from '../server-template.ts'
import { launchBrowser, NO_BROWSER } from './chromium.ts'
import { startSampleRepository } from './sample-repository.ts'

/** Checks the page, all rules or only that of contrast. Returns each problem with the element that has it. */
const problemsFor = (rules: 'all' | 'contrast') => `axe.run(document, {
  resultTypes: ['violations'],
  ${rules === 'all' ? '' : "runOnly: ['color-contrast'],"}
}).then(({ violations }) =>
  violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html.slice(0, 200))))`

const browser = await launchBrowser(t)
if (browser === undefined) t.plan(0, NO_BROWSER)
else await testPages(browser)

async function testPages(browser: Browser) {
  const { server, pages } = await startSampleRepository(t)
  for (const width of [320, 1280]) {
    t.test(`axe finds nothing on any page, light or dark: ${width} px`, async (t) => {
      // The policy of pages would block axe, which is not theirs.
      const context = await browser.newContext({ viewport: { width, height: 800 }, bypassCSP: true })
      t.teardown(() => context.close())
      const page = await context.newPage()
      for (const path of [...pages, '/alice/nothing']) {
        await page.emulateMedia({ colorScheme: 'light' })
        await page.goto(server.url + path)
        await page.addScriptTag({ content: axe.source })
        t.strictSame(await page.evaluate(problemsFor('all')), [], path)
        // Only colors differ.
        await page.emulateMedia({ colorScheme: 'dark' })
        t.strictSame(await page.evaluate(problemsFor('contrast')), [], `${path} dark`)
        const wide = await page.evaluate('document.documentElement.scrollWidth')
        t.ok(Number(wide) <= width, `${path} is ${wide} px wide`)
      }
    })
  }

  t.test('the policy blocks nothing, no page asks another host, and no text of users runs', async (t) => {
    const extraHTTPHeaders = { authorization: basic('alice') }
    const context = await browser.newContext({ extraHTTPHeaders })
    t.teardown(() => context.close())
    const page = await context.newPage()
    const problems: string[] = []
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) problems.push(`${page.url()} ${message.text()}`)
    })
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('request', (request) => {
      if (!request.url().startsWith(server.url)) problems.push(request.url())
    })
    for (const path of [...pages, '/alice/secret', '/user/settings/applications']) {
      await page.goto(server.url + path)
      t.equal(await page.evaluate('"hacked" in window'), false, path)
    }
    t.strictSame(problems, [])
  })

  t.test('links lead through the pages without a script, and the focus is visible', async (t) => {
    const context = await browser.newContext({ javaScriptEnabled: false })
    t.teardown(() => context.close())
    const page = await context.newPage()
    await page.goto(`${server.url}/`)
    await page.getByRole('link', { name: 'alice/greetings' }).first().click()
    await page.getByRole('link', { name: 'src/' }).click()
    await page.getByRole('link', { name: 'greet.js' }).click()
    await page.getByText('export const greet').waitFor()
    await page.getByRole('navigation', { name: 'Repository' }).getByRole('link', { name: 'Issues' }).click()
    await page.getByRole('searchbox').fill('finnish')
    await page.getByRole('button', { name: 'Filter' }).click()
    await page.getByRole('link', { name: 'Add Finnish greetings' }).click()
    await page.getByRole('heading', { name: 'Add Finnish greetings', level: 1 }).waitFor()
    await page.keyboard.press('Tab')
    t.equal(await page.locator(':focus').innerText(), 'Skip to the content')
    await page.keyboard.press('Enter')
    t.match(page.url(), /#content$/)
  })
}
