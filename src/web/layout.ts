/** The HTML document around the content of a page: bar, breadcrumbs, tabs, foot. Also the error page. */
import { html } from 'ghtml'
import type { ErrorBody } from '../http/answers/errors.ts'
import { contentPolicy } from '../http/answers/page-headers.ts'
import type { PageLinks } from './format.ts'

/** Allows only our own script, style, images and requests; no frames, forms, inline scripts or inline styles. */
export const CONTENT_SECURITY_POLICY = contentPolicy()
/** Policy of a page with forms. */
export const FORM_POLICY = contentPolicy({ 'form-action': "'self'" })

export interface PagePaths {
  /** The path of this page. */
  page: string
  /** The path of the directory with script and style. */
  assets: string
}

/** The server as pages show it. */
export interface Site {
  /** The path before all paths of the server; empty at the root. */
  base: string
  /** The login of the requester; null: anonymous; undefined: not known, as on an error page. */
  login?: string | null | undefined
}

export interface Crumb {
  text: string
  /** Absent for the page itself. */
  href?: string
}

/** Parts of a document. `tabs`, `main` and `beforeMain` are markup. */
export interface DocumentParts {
  title: string
  crumbs?: readonly Crumb[]
  tabs?: string
  beforeMain?: string
  main: string
  mainClass?: string
  /** Markup of the bar, such as the state of the live connection. */
  barEnd?: string
  /** Attributes of the body, which the script reads. Only a page with a script has them. */
  script?: Readonly<Record<string, string | number>>
}

const LOGO =
  '<svg viewBox="0 0 32 32" aria-hidden="true"><g fill="none" stroke="currentColor" stroke-width="3"><path d="M9 9v14M9 12c0 7 14 2 14 11"/><circle cx="9" cy="6" r="3"/><circle cx="9" cy="26" r="3"/><circle cx="23" cy="26" r="3"/></g></svg>'

function account({ base, login }: Site): string {
  if (login === undefined) return ''
  return login === null
    ? html`<a href="${base}/user/login">Sign in</a>`
    : html`<a href="${base}/${login}"><bdi>${login}</bdi></a><a href="${base}/user/settings/applications">Settings</a>`
}

const crumb = ({ text, href }: Crumb) =>
  href === undefined
    ? html`<li><span aria-current="page"><bdi>${text}</bdi></span></li>`
    : html`<li><a href="${href}"><bdi>${text}</bdi></a></li>`

/** Returns a whole page. */
export function documentOf(site: Site, parts: DocumentParts): string {
  const { title, crumbs = [], tabs = '', beforeMain = '', main, mainClass = '', barEnd = '', script } = parts
  const { base } = site
  const data = Object.entries(script ?? {}).map(([name, value]) => html` data-${name}="${value}"`)
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${base}/ui/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${base}/ui/assets/page.css">
!${script === undefined ? '' : html`<script type="module" src="${base}/ui/assets/page.js"></script>`}
</head>
<body!${data}>
<a class="skip" href="#content">Skip to the content</a>
<header class="bar">
<a class="brand" href="${base}/">!${LOGO}<span>Mergelog</span></a>
!${crumbs.length === 0 ? '' : html`<nav aria-label="Breadcrumb"><ol class="crumbs">!${crumbs.map(crumb)}</ol></nav>`}
<div class="account">!${barEnd}!${account(site)}</div>
</header>
!${tabs}
!${beforeMain}
<main id="content"!${mainClass && html` class="${mainClass}"`}>
!${main}
</main>
<footer class="foot"><span>Mergelog</span><a href="${base}/api/docs">API documentation</a><a href="${base}/ui/kit">Components</a></footer>
</body>
</html>
`
}

/** The page of a pull request with its three sections: `moment`, `timeline` and `changes`. */
export function page(
  { moment, timeline, changes }: { moment: string; timeline: string; changes: string },
  about: {
    title: string
    number: number
    fullName: string
    revision: number
    last: number
    links: PageLinks
    /** Markup of the tabs of the repository. */
    tabs: string
    login: string | null
  },
  paths: PagePaths,
): string {
  const { title, number, fullName, revision, last, links, tabs, login } = about
  const api = `${links.site}/api/v1/repos/${fullName}/pulls/${number}`
  const step = (id: string, to: number, words: string) => {
    const href = to < 0 || to > last ? '' : html` href="${paths.page}?revision=${to}" data-revision="${to}"`
    return html`<a id="${id}" class="step"!${href}>${words}</a>`
  }
  const travel = html`<nav class="travel" aria-label="Moments of this pull request">
<div class="slider" hidden>
<label for="slider">Moment</label>
<input id="slider" type="range" min="0" max="${last}" step="1" value="${revision}" aria-describedby="keys">
<p id="keys" class="aside">Use the arrow keys to go from event to event, Home for the first event and End for the last.</p>
</div>
<p class="steps">!${step('previous', revision - 1, '← Before')} <span id="place">event ${revision + 1} of ${last + 1}</span> !${step('next', revision + 1, 'After →')} <a id="now" class="step" href="${paths.page}" data-revision="now">Now</a></p>
<p id="said" class="aside" role="status"></p>
</nav>`
  const [owner = '', name = ''] = fullName.split('/')
  return documentOf(
    { base: links.site, login },
    {
      title: `${title} · ${fullName} #${number}`,
      crumbs: [
        { text: owner, href: `${links.site}/${owner}` },
        { text: name, href: links.repository },
        { text: `#${number}` },
      ],
      barEnd: html`<span id="live" class="live" role="status"></span><a href="${api}">JSON</a><a href="${api}/history">History</a>`,
      tabs,
      beforeMain: travel,
      main: `${moment}\n${timeline}\n${changes}`,
      mainClass: 'pull',
      script: { page: paths.page, revision, last },
    },
  )
}

/** A page with one column of text and no script. `body` is HTML; `login`: as in `Site`. */
export function plainPage(title: string, assets: string, body: string, login?: string | null): string {
  const base = assets.replace(/\/ui\/assets$/, '')
  return documentOf({ base, login }, { title, main: body, mainClass: 'plain stack' })
}

/** The error page. `signIn`: the URL for a sign-in, if it may help. */
export function errorPage(
  status: number,
  { message, errors = [] }: Pick<ErrorBody, 'message' | 'errors'>,
  assets: string,
  signIn?: string,
): string {
  const reasons = errors.map((error) => html`<li>${error}</li>`).join('')
  return plainPage(
    `${status}: ${message}`,
    assets,
    html`<h1>${status}</h1>
<p>${message.slice(0, 1)[0]?.toUpperCase() ?? ''}${message.slice(1)}.</p>
!${errors.length === 0 ? '' : `<ul>${reasons}</ul>`}
!${signIn === undefined ? '' : html`<p><a href="${signIn}">Sign in</a></p>`}`,
  )
}
