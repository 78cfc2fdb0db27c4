/** The look of the API's documentation page, Swagger UI, which needs no other host. */
import { readFile } from 'node:fs/promises'
import type { FastifySwaggerUiOptions } from '@fastify/swagger-ui'
import { projectFile } from '../../storage/project-files.ts'

/** Swagger UI in the colours of the product's pages. */
const LOOK = `
.mergelog { display: flex; align-items: center; gap: 8px; padding: 10px 20px; background: #f3f1fc; border-bottom: 1px solid #d9d4f5; color: #3b4151; font: bold 20px system-ui, sans-serif; text-decoration: none; }
.mergelog img { height: 32px; }
.swagger-ui, .swagger-ui .info .title, .swagger-ui .opblock-tag { font-family: system-ui, sans-serif; }
`

/** The bar with the name. `home`: URL of the start page. */
const bar = (home: string) => `
const bar = document.createElement('a')
bar.className = 'mergelog'
bar.href = ${JSON.stringify(home)}
const icon = document.createElement('img')
icon.alt = ''
icon.src = document.querySelector('link[rel=icon]').href
bar.append(icon, 'Mergelog')
document.body.prepend(bar)
`

/** The options with the product's name and icon. `base`: path of the public URL. */
export async function docsPage(base: string): Promise<FastifySwaggerUiOptions> {
  const content = await readFile(projectFile('ui/icon.svg'))
  return {
    // The bar of Swagger UI itself has an inline style, which the policy of the page forbids.
    uiConfig: { layout: 'BaseLayout', deepLinking: true, docExpansion: 'none', filter: true },
    theme: {
      title: 'Mergelog API',
      favicon: [{ filename: 'icon.svg', rel: 'icon', sizes: 'any', type: 'image/svg+xml', content }],
      css: [{ filename: 'mergelog.css', content: LOOK }],
      js: [{ filename: 'mergelog.js', content: bar(`${base}/`) }],
    },
  }
}
