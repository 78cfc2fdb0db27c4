/** The HTML document around the sections of the page, and the error page. */
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

const head = (title: string, assets: string, script: boolean) => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="icon" href="${assets}/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="${assets}/page.css">
!${script ? html`<script type="module" src="${assets}/page.js"></script>` : ''}
</head>`

/** The page with its three sections: `moment`, `timeline` and `changes`. */
export function page(
  { moment, timeline, changes }: { moment: string; timeline: string; changes: string },
  about: {
    title: string
    number: number
    fullName: string
    revision: number
    last: number
    links: PageLinks
  },
  paths: PagePaths,
): string {
  const { title, number, fullName, revision, last, links } = about
  const api = `${links.site}/api/v1/repos/${fullName}/pulls/${number}`
  const step = (id: string, to: number, words: string) => {
    const href = to < 0 || to > last ? '' : html` href="${paths.page}?revision=${to}" data-revision="${to}"`
    return html`<a id="${id}" class="step"!${href}>${words}</a>`
  }
  return html`!${head(`${title} · ${fullName} #${number}`, paths.assets, true)}
<body data-page="${paths.page}" data-revision="${revision}" data-last="${last}">
<header class="top">
<p class="place"><a href="${links.repository}"><bdi>${fullName}</bdi></a> <span class="none">/</span> pull request ${number} (<a href="${api}">JSON</a>, <a href="${api}/history">history</a>)</p>
<p id="live" class="live" role="status"></p>
</header>
<nav class="travel" aria-label="Moments of this pull request">
<div class="slider" hidden>
<label for="slider">Moment</label>
<input id="slider" type="range" min="0" max="${last}" step="1" value="${revision}" aria-describedby="keys">
<p id="keys" class="aside">Use the arrow keys to go from event to event, Home for the first event and End for the last.</p>
</div>
<p class="steps">!${step('previous', revision - 1, '← Before')} <span id="place">event ${revision + 1} of ${last + 1}</span> !${step('next', revision + 1, 'After →')} <a id="now" class="step" href="${paths.page}" data-revision="now">Now</a></p>
<p id="said" class="aside" role="status"></p>
</nav>
<main>
!${moment}
!${timeline}
!${changes}
</main>
</body>
</html>
`
}

/** A page without a script that is one column of text. `body` is HTML. */
export function plainPage(title: string, assets: string, body: string): string {
  return html`!${head(title, assets, false)}
<body>
<main class="plain">
!${body}
</main>
</body>
</html>
`
}

/** The error page for people. `signIn`: where one can sign in, if that may help. */
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
