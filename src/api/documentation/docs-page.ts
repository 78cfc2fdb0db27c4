/** The look of the API's documentation page, Swagger UI, which needs no other host. */
import { readFile } from 'node:fs/promises'
import type { FastifySwaggerUiOptions } from '@fastify/swagger-ui'
import { projectFile } from '../../storage/project-files.ts'

/** Swagger UI in the colours of the product's pages. */
const LOOK = `
.swagger-ui .topbar { background: #f3f1fc; border-bottom: 1px solid #d9d4f5; }
.swagger-ui .topbar .download-url-wrapper { display: none; }
.swagger-ui, .swagger-ui .info .title, .swagger-ui .opblock-tag { font-family: system-ui, sans-serif; }
`

/** The options with the product's name and icon. */
export async function docsPage(): Promise<FastifySwaggerUiOptions> {
  const content = await readFile(projectFile('ui/icon.svg'))
  const type = 'image/svg+xml'
  return {
    uiConfig: { deepLinking: true, docExpansion: 'none', filter: true },
    logo: { type, content, href: '/', target: '_self' },
    theme: {
      title: 'Mergelog API',
      favicon: [{ filename: 'icon.svg', rel: 'icon', sizes: 'any', type, content }],
      css: [{ filename: 'mergelog.css', content: LOOK }],
    },
  }
}
