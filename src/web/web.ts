/** All pages for people, at Gitea's addresses. */
import type { FastifyPluginAsync } from 'fastify'
import { compressAnswers } from '../http/answers/compression.ts'
import type { Services } from '../services/services.ts'
import { applicationRoutes } from './applications.ts'
import { serveBrowsers } from './browser-routes.ts'
import { codePages } from './code-pages.ts'
import { discussionLists } from './discussion-lists.ts'
import { homeRoutes } from './home.ts'
import { issuePages } from './issue-page.ts'
import { kitRoutes } from './kit.ts'
import { FORM_POLICY } from './layout.ts'
import { answerWithPages } from './pages.ts'
import { planningPages } from './planning-pages.ts'
import { uiRoutes } from './routes.ts'
import { signInRoutes } from './sign-in.ts'

export const webRoutes =
  (services: Services): FastifyPluginAsync =>
  async (web) => {
    serveBrowsers(web)
    await web.register(uiRoutes(services))
    await web.register(signInRoutes(services))
    await web.register(applicationRoutes(services))
    await web.register(async (pages) => {
      answerWithPages(pages, FORM_POLICY)
      await compressAnswers(pages)
      await pages.register(homeRoutes(services))
      await pages.register(codePages(services))
      await pages.register(discussionLists(services))
      await pages.register(issuePages(services))
      await pages.register(kitRoutes(services))
      await pages.register(planningPages(services))
    })
  }
