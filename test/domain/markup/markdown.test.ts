import t from 'tap'
import { renderMarkdown } from '../../../src/domain/markup/render.ts'
import { highlightInThread, renderInThread } from '../../../src/domain/markup/renderer.ts'
import { startTestServer } from '../../start-server.ts'

const render = (text: string, repository: string | null = 'alice/app', hardBreaks = false) =>
  renderMarkdown({ text, hardBreaks, site: 'https://git.example', repository })?.trim() ?? ''

t.test('markdown becomes HTML: tables, tasks, code, details', async (t) => {
  t.equal(render('# A\n\n*b* ~~c~~'), '<h1>A</h1>\n<p><em>b</em> <s>c</s></p>')
  t.match(render('| a | b |\n| - | -: |\n| 1 | 2 |'), /<td style="text-align:right">2<\/td>/)
  t.match(render('- [x] done\n- [ ] open'), /<input type="checkbox" disabled checked \/> done/)
  t.match(render('- [x] done\n- [ ] open'), /<input type="checkbox" disabled \/> open/)
  t.match(render('```ts\na < b\n```'), '<pre><code class="language-ts">a &lt; b\n</code></pre>')
  t.match(
    render('<details><summary>S</summary>\n\n**b**\n\n</details>'),
    /<details><summary>S<\/summary>\n<p><strong>b<\/strong>/,
  )
  t.equal(render('a\nb', null, true), '<p>a<br />\nb</p>')
})

t.test('issues, commits, mentions and addresses are links in the context of a repository', async (t) => {
  const link = (to: string, text: string) => `<a href="${to}" rel="nofollow">${text}</a>`
  const site = 'https://git.example'
  t.equal(render('see #12, x'), `<p>see ${link(`${site}/alice/app/issues/12`, '#12')}, x</p>`)
  t.equal(render('bob/lib#3'), `<p>${link(`${site}/bob/lib/issues/3`, 'bob/lib#3')}</p>`)
  t.equal(render('(@bob)'), `<p>(${link(`${site}/bob`, '@bob')})</p>`)
  const sha = '0123456789abcdef0123456789abcdef01234567'
  t.equal(render(sha), `<p>${link(`${site}/alice/app/commit/${sha}`, sha.slice(0, 10))}</p>`)
  t.equal(render('https://a.example/b'), `<p>${link('https://a.example/b', 'https://a.example/b')}</p>`)
  t.equal(render('#12 @bob', null), `<p>#12 ${link(`${site}/bob`, '@bob')}</p>`)
  for (const text of ['a#12', 'a@bob.example', '1234567', '#0', 'x/#1', 'readme.md']) {
    t.equal(render(text), `<p>${text}</p>`)
  }
  t.equal(render('`#12`'), '<p><code>#12</code></p>')
  t.equal(render('[#12](/a)'), `<p>${link('/a', '#12')}</p>`)
})

const HARMFUL = [
  '<script>alert(1)</script>',
  '<img src=x onerror=alert(1)>',
  '[a](javascript:alert(1))',
  '<a href="jav&#x09;ascript:alert(1)">a</a>',
  '<a href=" javascript:alert(1)">a</a>',
  '![a](data:image/svg+xml;base64,PHN2Zz4=)',
  '<svg><script>alert(1)</script></svg>',
  '<math><mi xlink:href="javascript:alert(1)">',
  '<iframe src="https://a.example"></iframe>',
  '<form action="/x"><button>b</button></form>',
  '<div style="position:fixed" onclick="alert(1)">',
  '<style>*{display:none}</style>',
  '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
  '<input type="image" src=x onerror=alert(1) formaction="/x">',
  '<base href="https://a.example">',
  '<meta http-equiv="refresh" content="0">',
  '<a href="//a.example" id="x" name="y" target="_blank">a</a>',
  '`x`<img/src=x/onerror=alert(1)>',
]

t.test('dangerous HTML is removed', async (t) => {
  for (const text of HARMFUL) {
    const tags =
      render(text)
        .match(/<[^>]*>/g)
        ?.join() ?? ''
    t.notMatch(
      tags,
      /javascript:|data:|\son\w+=|<(script|svg|math|iframe|form|button|style|base|meta|noscript)|position|formaction|"\/\/|\s(id|name|target|class)=/i,
      text,
    )
  }
})

const server = await startTestServer(t)
const post = async (path: string, body: object | string, login: string | null = 'alice') => {
  const answer = await server.fetch(login, `/api/v1/${path}`, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(typeof body === 'string' && { headers: { 'content-type': 'text/plain' } }),
  })
  return { status: answer.status, type: answer.headers.get('content-type'), text: await answer.text() }
}

t.test('the routes render as Gitea: gfm and comment in a context, markdown without', async (t) => {
  const alice = await server.as('alice')
  const Context = 'alice/app'
  t.match(await post('markdown', { Text: '#1', Mode: 'gfm', Context }), {
    status: 200,
    type: 'text/html; charset=utf-8',
    text: `href="${server.url}/alice/app/issues/1"`,
  })
  const here = `${server.url}/alice/app/src/branch/main`
  t.match((await post('markup', { Text: '#1', Mode: 'comment', Context: here })).text, '/alice/app/issues/1"')
  t.equal((await post('markdown', { Text: '#1', Context })).text, '<p>#1</p>\n')
  t.equal((await post('markdown/raw', '**a**')).text, '<p><strong>a</strong></p>\n')
  t.equal((await alice.markdown.renderMarkdown({ Text: 'a' })).status, 200)
  t.equal((await post('markup', { Text: 'a', Mode: 'file', FilePath: 'a.md' })).text, '<p>a</p>\n')
  t.equal((await post('markup', { Text: 'a', Mode: 'file', FilePath: 'a.org' })).status, 422)
  t.equal((await post('markup', { Text: 'a', Mode: 'odd' })).status, 422)
  t.equal((await post('markdown', {})).text, '')
  t.equal((await post('markdown', { Text: 'a' }, null)).status, 401)
  t.equal((await post('markdown', { Text: 'x'.repeat(140_000) })).status, 422)
  t.equal((await post('markdown/raw', 'x'.repeat(140_000))).status, 422)
})

t.test('a text whose HTML is too long is refused, and the next one is rendered', async (t) => {
  const Text = `[a]: /${'x'.repeat(30_000)}\n\n${'[a]'.repeat(10_000)}`
  const [long, short] = await Promise.all([
    post('markdown', { Text }),
    post('markdown', { Text: 'short' }, 'bob'),
  ])
  t.match(long, { status: 422, text: /too long/ })
  t.equal(short.text, '<p>short</p>\n')
})

t.test(
  'code gets colors line by line, as escaped text in spans; an unknown language gets none',
  async (t) => {
    const code = "/* one\n<two> */\nconst a = '<b>'"
    const lines = await highlightInThread('test', { code, fileName: 'a.js' })
    t.strictSame(lines, [
      '<span class="hljs-comment">/* one</span>',
      '<span class="hljs-comment">&lt;two&gt; */</span>',
      '<span class="hljs-keyword">const</span> a = <span class="hljs-string">&#x27;&lt;b&gt;&#x27;</span>',
    ])
    t.equal(await highlightInThread('test', { code, fileName: 'a.unknown-kind' }), undefined)
  },
)

t.test(
  'on pages, Markdown has no inline styles and no foreign images, and relative links lead to files',
  async (t) => {
    const page = { links: '/o/r/src/branch/main/d/', images: '/o/r/raw/branch/main/d/' }
    const text = [
      '[a](b.md) [c](../d) [e](#f) [g](https://h.example/) ![i](j.png) ![k](//l.example/m)',
      '[![badge](https://img.example/b.svg)](https://ci.example/)',
      '- [x] done',
      '|a|\n|:-:|\n|b|',
    ].join('\n\n')
    const html = await renderInThread('test', {
      text,
      hardBreaks: false,
      site: 'http://s',
      repository: null,
      page,
    })
    t.match(html, '<a href="/o/r/src/branch/main/d/b.md" rel="nofollow">a</a>')
    t.match(html, '<a href="/o/r/src/branch/main/d" rel="nofollow">c</a>')
    t.match(html, '<a href="#f" rel="nofollow">e</a> <a href="https://h.example/" rel="nofollow">g</a>')
    t.match(html, '<img alt="i" src="/o/r/raw/branch/main/d/j.png" />')
    t.match(html, '<a href="https://ci.example/" rel="nofollow">badge</a>')
    t.match(html, 'aria-label="done"')
    t.match(html, '<th align="center">a</th>')
    t.notMatch(html, /style=|<img[^>]*example|<a[^>]*><a/)
  },
)
