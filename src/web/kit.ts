/** `/ui/kit`: all components in all states, to look at and to compare. */
import type { FastifyPluginAsync } from 'fastify'
import { html } from 'ghtml'
import type { Services } from '../services/services.ts'
import {
  avatar,
  badge,
  box,
  buttonLink,
  choiceLinks,
  codeBlock,
  counter,
  emptyState,
  factList,
  labelChip,
  listBox,
  notice,
  pagination,
  type State,
  searchField,
  select,
  stateBadge,
  stateMark,
  tabs,
  time,
} from './components.ts'
import { documentOf } from './layout.ts'
import { HTML } from './pages.ts'
import { siteOf } from './repository-frame.ts'

const STATES: readonly State[] = ['open', 'draft', 'closed', 'merged']
const AT = '2026-01-31T12:30:45Z'
const LONG = 'A long title that goes on: 寬'.padEnd(160, ' and on')
const COLORS = ['d73a4a', 'fbca04', 'ffffff', '000000']

function content(): string {
  const choices = ['Open', 'Closed', 'All'].map((text, i) => ({
    href: `#${text}`,
    text,
    isCurrent: i === 0,
    ...(i < 2 && { count: 12 * i }),
  }))
  const rows = [
    ...STATES.map((state) => ({
      mark: stateMark(state),
      title: html`<a href="#rows">A row that is ${state}</a>`,
      meta: html`#1 opened on !${time(AT)}`,
      end: '<span>3 comments</span>',
    })),
    { title: html`<a href="#rows">${LONG}</a> !${labelChip({ name: 'label', color: COLORS[0] ?? '' })}` },
  ]
  const sections: [name: string, markup: string][] = [
    [
      'Type',
      html`<h1>Title</h1><h2>Heading</h2><h3>Small heading</h3><p>Text with <a href="#Type">a link</a>, <code>code</code>, <b>weight</b>, <span class="soft">a soft remark</span> and <mark>a mark</mark>.</p>`,
    ],
    ['States', html`<p class="head">!${STATES.map(stateBadge)}!${badge('Private')}!${counter(7)}</p>`],
    [
      'Labels',
      html`<p class="chips">!${COLORS.map((color) => labelChip({ name: `#${color}`, color }, '#Labels'))}!${labelChip({ name: LONG, color: '0e8a16' })}</p>`,
    ],
    [
      'Avatars',
      html`<p class="head">!${['Ada', 'bob', 'Carol Ng', 'dave', 'eve', '寬 字', '—'].map((name) => avatar(name))}!${avatar('Grace Hopper', 'large')}</p>`,
    ],
    [
      'Buttons',
      html`<p class="head">!${buttonLink('#Buttons', 'Link')}!${buttonLink('#Buttons', 'Primary link', true)}<button type="button">Button</button><button type="button" class="danger">Delete</button><button type="button" disabled>Disabled</button></p>`,
    ],
    [
      'Forms',
      html`<form class="filters" action="#Forms">!${searchField('Search', 'words')}!${select(
        'Order',
        'sort',
        [
          ['', 'Newest'],
          ['oldest', 'Oldest'],
        ],
        'oldest',
      )}<button>Filter</button></form>`,
    ],
    ['Tabs', tabs('Example', choices)],
    ['Rows', listBox(choiceLinks('State', choices), rows, '')],
    [
      'Empty',
      listBox(
        '<span>0 issues</span>',
        [],
        emptyState('There are no open issues', '<a href="#Empty">Show all</a>'),
      ),
    ],
    [
      'Pages',
      [1, 2, 3]
        .map((page) => pagination({ page, limit: 10, total: 30 }, (to) => `#${to}`, `Pages at ${page}`))
        .join(''),
    ],
    [
      'Notices',
      (['info', 'warning', 'error'] as const)
        .map((kind) => notice(kind, `A notice of the kind ${kind}.`))
        .join(''),
    ],
    ['Code', codeBlock(`git clone https://example.org/alice/app.git\n${'x'.repeat(300)}`)],
    [
      'Facts',
      box(
        '<h3>Facts</h3>',
        factList([
          ['Assignees', 'alice'],
          ['Milestone', ''],
          ['Opened', time(AT)],
        ]),
      ),
    ],
  ]
  return html`<h1>Components</h1><p class="lead">The pages of Mergelog consist of these parts.</p>!${sections.map(([name, markup]) => html`<section id="${name}" class="stack" aria-labelledby="${name}-title"><h2 id="${name}-title">${name}</h2>!${markup}</section>`)}`
}

export const kitRoutes =
  (services: Services): FastifyPluginAsync =>
  async (app) => {
    app.get('/ui/kit', { config: { forPages: true }, schema: { hide: true } }, async (request, reply) => {
      reply.type(HTML).header('Cache-Control', 'private, no-cache')
      return documentOf(siteOf(services, request), {
        title: 'Components',
        main: content(),
        mainClass: 'stack',
      })
    })
  }
