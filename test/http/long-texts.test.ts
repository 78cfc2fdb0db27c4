/**
 * A long text of one character in each field of each body. A search that restarts at each character would take minutes
 * for it, and block the event loop: then this test does not end.
 */
import t from 'tap'
import { ROWS } from '../auth/route-rows.ts'
import { routesOf, startWorld } from '../auth/route-world.ts'

const CHARACTERS = ['/', ' ', '.', '-', '<', '@']
/**
 * Number of texts for each route: the fields of many routes are read by the same code, and together they cover all
 * texts.
 */
const EACH = 1
const LENGTH = 400_000

/** Returns the JSON values in which a long text replaces one of the texts. */
function* withLongTexts(value: unknown, long: string): Generator<unknown> {
  if (typeof value === 'string') yield long
  else if (Array.isArray(value)) {
    for (const [i, part] of value.entries()) {
      for (const other of withLongTexts(part, long)) yield value.with(i, other)
    }
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, part] of Object.entries(value)) {
      for (const other of withLongTexts(part, long)) yield { ...value, [name]: other }
    }
  }
}

t.test('a long text of one character blocks no other request, in any field', async (t) => {
  const world = await startWorld(t)
  const here = await world.place('public')
  let sent = 0
  let turn = 0
  for (const { method, url, name } of routesOf(world.app)) {
    const target = (await ROWS[name]?.call?.(here, world)) ?? {}
    if (target.body === undefined) continue
    const path = { owner: here.owner, repo: here.repo, ...target.path }
    for (let i = 0; i < EACH; i++) {
      turn += 1
      const character = CHARACTERS[turn % CHARACTERS.length] ?? ''
      for (const body of withLongTexts(target.body, `a${character.repeat(LENGTH)}a`)) {
        if (typeof body !== 'object' || body === null) continue
        const { status } = await world.send('admin', method, url, { ...target, path, body })
        sent += 1
        if (status >= 500) t.fail(`${name}: ${status}`)
      }
    }
  }
  t.ok(sent > 100)
})
