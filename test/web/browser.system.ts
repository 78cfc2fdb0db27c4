/** The page in a real browser. */
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import t from 'tap'
import { passwordOf } from '../server-template.ts'
import { until } from '../until.ts'
import { launchBrowser, NO_BROWSER } from './chromium.ts'
import { HOSTILE_TITLE, lastOf, startSamplePull } from './sample-pull.ts'

type Test = Pick<typeof t, 'teardown'>

const browser = await launchBrowser(t)
if (browser === undefined) t.plan(0, NO_BROWSER)
else await testPage(await startSamplePull(t), browser)

async function testPage(story: Awaited<ReturnType<typeof startSamplePull>>, browser: Browser): Promise<void> {
  const { app, index, server } = story
  const address = `${server.url}${story.page}`
  await until('the head has moved, and has been checked', async () => {
    const types = await app.typesOf(index)
    return types.filter((type) => type === 'PullRequestHeadMoved').length === 1
  })

  /** A new tab. `problems` collects its script errors, violations of the policy and failed loads. */
  async function open(test: Test, options: BrowserContextOptions = {}) {
    const context = await browser.newContext(options)
    test.teardown(() => context.close())
    const page = await context.newPage()
    const problems: string[] = []
    const requests: string[] = []
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) problems.push(message.text())
    })
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('request', (request) => requests.push(request.url()))
    return { page, problems, requests }
  }

  const showsMoment = (page: Page, revision: number) =>
    page.locator(`#moment[data-revision="${revision}"]`).waitFor()
  const isLive = (page: Page) => page.locator('[data-live="on"]').waitFor()
  const isHacked = (page: Page) => page.evaluate('"hacked" in window')

  async function revisionOf(type: string): Promise<number> {
    return (await app.eventsOf(index)).findLastIndex((event) => event.type === type)
  }

  await t.test('the timeline has a sentence for each event, and the policy blocks nothing', async (t) => {
    const { page, problems } = await open(t)
    await page.goto(address)
    await isLive(page)
    const sentences = await page.locator('#timeline .sentence').allInnerTexts()
    t.equal(sentences.length, (await lastOf(story)) + 1)
    t.match(sentences[0], /^bob opened this pull request: polite into main, 1 file/)
    for (const words of [
      'carol commented.',
      'alice assigned bob and carol.',
      'alice reopened this pull request.',
    ]) {
      t.ok(sentences.includes(words), words)
    }
    t.equal(await page.locator('h1 bdi').innerText(), 'Greet politely, and find the answer')
    t.match(await page.locator('#changes').innerText(), /2 commits/i)
    t.strictSame(problems, [])
  })

  await t.test("the policy blocks nothing of the API's page, and its name leads home", async (t) => {
    const { page, problems } = await open(t)
    await page.goto(`${server.url}/api/docs`)
    await page.locator('.opblock-tag').first().click()
    await page.locator('.opblock-summary').first().click()
    await page.locator('.opblock-body').first().waitFor()
    t.strictSame(problems, [])
    await page.getByRole('link', { name: 'Mergelog', exact: true }).first().click()
    await page.waitForURL(`${server.url}/`)
  })

  await t.test('keys move the slider, and the page marks and names the changes', async (t) => {
    const { page, problems } = await open(t)
    await page.goto(address)
    const last = await lastOf(story)
    const slider = page.getByRole('slider', { name: 'Moment' })
    await slider.focus()
    await page.keyboard.press('Home')
    await showsMoment(page, 0)
    t.equal(await page.locator('h1 bdi').innerText(), 'Greetings that are polite')
    t.match(await slider.getAttribute('aria-valuetext'), /^Event 1 of \d+: bob opened this pull request/)
    t.match(page.url(), /\?revision=0$/)
    const titled = await revisionOf('TitleChanged')
    for (let i = 0; i < titled; i++) await page.keyboard.press('ArrowRight')
    await showsMoment(page, titled)
    t.equal(await page.locator('h1 mark').innerText(), 'Greet politely, and find the answer')
    t.match(await page.locator('.summary').innerText(), 'Changed: Title.')
    t.equal(await page.locator('[aria-current="step"]').getAttribute('data-revision'), `${titled}`)
    await page.locator('body:not([aria-busy])').waitFor()
    t.match(await page.locator('#changes').innerText(), /1 commit\b/i, 'the diff is that of the moment')
    await page.keyboard.press('End')
    await showsMoment(page, last)
    t.equal(await page.locator('h1 mark').count(), 0)
    await page.locator('#changes', { hasText: '2 commits' }).waitFor()
    t.equal(new URL(page.url()).search, '')

    await page.locator('#previous').press('Enter')
    await showsMoment(page, last - 1)
    t.equal(await page.evaluate('document.activeElement.id'), 'previous', 'the link keeps the focus')
    await page.locator(`#timeline a[data-revision="${titled}"]`).press('Enter')
    await showsMoment(page, titled)
    await page.locator('#now').click()
    await showsMoment(page, last)
    t.notOk(await page.locator('#next').getAttribute('href'), 'there is nothing after the last event')
    t.strictSame(problems, [])
  })

  await t.test('a fast slider sends one request, and a loaded moment is not requested again', async (t) => {
    const { page, requests } = await open(t)
    await page.goto(address)
    await isLive(page)
    requests.length = 0
    const moments = () => requests.filter((url) => url.includes('part=moment'))
    await page.evaluate(`{
      const slider = document.getElementById('slider')
      for (let i = 0; i < 60; i++) {
        slider.value = String(i % 5)
        slider.dispatchEvent(new Event('input'))
      }
    }`)
    await showsMoment(page, 4)
    t.equal(moments().length, 1)
    await page.locator('#previous').click()
    await showsMoment(page, 3)
    await page.locator('#next').click()
    await showsMoment(page, 4)
    t.equal(moments().length, 2)
  })

  await t.test('the page shows new events live', async (t) => {
    const { page, problems } = await open(t)
    await page.goto(address)
    await isLive(page)
    await app.edit(index, { title: 'Changed while somebody looks' })
    await page.getByRole('heading', { name: 'Changed while somebody looks' }).waitFor()
    const last = await lastOf(story)
    t.equal(
      await page.locator('#slider').inputValue(),
      `${last}`,
      'a slider at the end moves to the new event',
    )
    t.match(await page.locator('#timeline').innerText(), 'to Changed while somebody looks.')
    t.match(await page.title(), /^Changed while/)

    await page.locator('#slider').press('Home')
    await showsMoment(page, 0)
    await app.call('carol', 'POST', `issues/${index}/comments`, { body: 'And another thing' })
    await page.locator('#timeline', { hasText: 'And another thing' }).waitFor()
    t.equal(await page.locator('#slider').getAttribute('max'), `${await lastOf(story)}`)
    t.equal(await page.locator('#slider').inputValue(), '0', 'a slider at a past event stays there')
    t.equal(await page.locator('#moment').getAttribute('data-revision'), '0')
    t.match(await page.locator('#place').innerText(), `event 1 of ${(await lastOf(story)) + 1}`)
    t.strictSame(problems, [])
  })

  await t.test('a hostile title is shown as plain text', async (t) => {
    const { page, problems } = await open(t, { viewport: { width: 360, height: 740 } })
    const titled = (await app.eventsOf(index)).findIndex(
      ({ type, data }) => type === 'TitleChanged' && 'title' in data && data.title === HOSTILE_TITLE,
    )
    await page.goto(`${address}?revision=${titled}`)
    await isLive(page)
    t.equal(await page.locator('h1 bdi').textContent(), HOSTILE_TITLE)
    await page.locator('#slider').press('ArrowLeft')
    await showsMoment(page, titled - 1)
    await page.locator('#slider').press('ArrowRight')
    await showsMoment(page, titled)
    t.equal(await page.locator('h1 bdi').textContent(), HOSTILE_TITLE)
    t.equal(await isHacked(page), false)
    t.equal(await page.locator('main img, main script').count(), 0)
    t.ok(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), 'the page fits a phone')
    t.strictSame(problems, [])
  })

  await t.test('the page works without a script', async (t) => {
    const { page, problems } = await open(t, { javaScriptEnabled: false })
    await page.goto(address)
    t.equal(await page.locator('#slider').isVisible(), false)
    t.equal(await page.locator('#timeline .entry').count(), (await lastOf(story)) + 1)
    t.ok(await page.locator('#changes table').first().isVisible())
    await page.locator('#timeline a[data-revision="0"]').click()
    await page.waitForURL(/revision=0/)
    t.equal(await page.locator('h1 bdi').innerText(), 'Greetings that are polite')
    await page.locator('#next').click()
    await page.waitForURL(/revision=1/)
    await showsMoment(page, 1)
    t.strictSame(problems, [])
  })

  await t.test('a private pull request is shown live to a signed-in reader', async (t) => {
    const hidden = await story.repository(t, 'hidden', { private: true })
    await hidden.branch('topic', { x: 'x' })
    const number = await hidden.open('topic')
    const httpCredentials = { username: 'alice', password: passwordOf('alice') }
    const { page } = await open(t, { httpCredentials })
    await page.goto(`${server.url}/ui/alice/hidden/pulls/${number}`)
    await isLive(page)
    await hidden.edit(number, { title: 'Still hidden' })
    await page.getByRole('heading', { name: 'Still hidden' }).waitFor()
  })

  await t.test('basics of accessibility: names, headings, landmarks, focus', async (t) => {
    const { page } = await open(t, { colorScheme: 'dark', reducedMotion: 'reduce' })
    await page.goto(`${address}?revision=3`)
    await isLive(page)
    t.equal(await page.locator('html').getAttribute('lang'), 'en')
    t.equal(await page.getByRole('main').count(), 1)
    t.equal(await page.getByRole('navigation', { name: 'Moments of this pull request' }).count(), 1)
    t.equal(await page.getByRole('heading', { level: 1 }).count(), 1)
    const levels = await page
      .locator('h1, h2, h3')
      .evaluateAll((all) => all.map(({ tagName }) => Number(tagName[1])))
    t.ok(
      levels.every((level, i) => level <= (levels[i - 1] ?? 0) + 1),
      `no heading level is skipped: ${levels}`,
    )
    const ids = await page.locator('[id]').evaluateAll((all) => all.map(({ id }) => id))
    t.equal(new Set(ids).size, ids.length, 'ids are unique')
    for (const link of await page.getByRole('link').all()) t.match(await link.innerText(), /\S/)
    t.equal(await page.locator('[role="status"]').count(), 2)
    const outlines = new Set<unknown>()
    for (let i = 0; i < 6; i++) {
      await page.keyboard.press('Tab')
      outlines.add(await page.evaluate('getComputedStyle(document.activeElement).outlineStyle'))
    }
    t.strictSame([...outlines], ['solid'], 'the focus is visible')
  })
}
