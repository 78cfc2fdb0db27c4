/** Adds and removes reactions to issues, pull requests and comments, for readers. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { onRepository, type RepositoryRequest } from '../../access/repository-access.ts'
import { CommentParams, commentFor } from '../../api/comments/comments.ts'
import { IssueParams, issueFor, onIssue, requireUnlocked } from '../../api/issues/issues.ts'
import { ALLOWED_REACTIONS, ReactionWire, reactionWires } from '../../api/reactions/reactions.ts'
import { signedIn } from '../../auth/requester.ts'
import { emptyAnswer, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { reactionId } from '../../projections/models/reactions/reactions.fold.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { changeReactions } from './change.ts'
import { decideAddReaction, decideRemoveReaction, type ReactionTarget } from './reactions.decider.ts'

const EditReactionOption = Type.Object(
  { content: Type.String({ maxLength: 64 }) },
  { title: 'EditReactionOption' },
)

type ReactionRequest = FastifyRequest & { body: Static<typeof EditReactionOption> }
type Target = ReactionTarget & { isPull: boolean }

/** Returns the reaction. @throws Refused (forbidden) for an unknown one, as in Gitea */
function allowed(reaction: string): string {
  if (ALLOWED_REACTIONS.includes(reaction)) return reaction
  throw new Refused(refuse.forbidden(`content: '${reaction}' is not an allowed reaction`))
}

export const reactionRoutes: Routes = (services) => {
  const { views } = services

  async function add(request: ReactionRequest, reply: FastifyReply, target: Target) {
    const { id, login } = signedIn(request)
    const reaction = allowed(request.body.content)
    const context = commandContext(request)
    const before = context.written
    await changeReactions(services, context, target, 'add reaction', (state) =>
      decideAddReaction(state, target, { id, login }, reaction),
    )
    const isNew = context.written !== before
    await settled(services, context, reply)
    const given = { userId: id, reaction, createdAt: context.at }
    const document = await views.reactions.get(reactionId({ ...target, ...given }))
    const [wire] = await reactionWires(services, [document ?? given])
    if (wire === undefined) throw new Error('a reaction has no wire form')
    return reply.code(isNew ? 201 : 200).send(wire)
  }

  async function remove(request: ReactionRequest, reply: FastifyReply, target: Target) {
    const { id, login } = signedIn(request)
    const reaction = allowed(request.body.content)
    const context = commandContext(request)
    await changeReactions(services, context, target, 'remove reaction', (state) =>
      decideRemoveReaction(state, target, { id, login }, reaction),
    )
    await settled(services, context, reply)
    return reply.code(200).send()
  }

  async function ofIssue(request: RepositoryRequest & { params: { index: string } }): Promise<Target> {
    const { issue, access } = await onIssue(services, request, 'read')
    requireUnlocked(issue, access)
    const { repoId, index, isPull } = issue
    return { repoId, index, isPull, commentId: null }
  }

  async function ofComment(request: RepositoryRequest & { params: { id: string } }): Promise<Target> {
    const { repository, access } = await onRepository(services, request, 'read')
    const { repoId, index, isPull, id } = await commentFor(services, repository.id, request.params.id)
    requireUnlocked(await issueFor(services, repoId, `${index}`), access)
    return { repoId, index, isPull, commentId: id }
  }

  const ADDED = { 200: ReactionWire, 201: ReactionWire }
  const REMOVED = { 200: emptyAnswer('The reaction is removed') }

  return async (app) => {
    app.post(
      '/repos/:owner/:repo/issues/:index/reactions',
      route('issue', { params: IssueParams, body: EditReactionOption, response: ADDED }),
      async (request, reply) => add(request, reply, await ofIssue(request)),
    )
    app.delete(
      '/repos/:owner/:repo/issues/:index/reactions',
      route('issue', { params: IssueParams, body: EditReactionOption, response: REMOVED }),
      async (request, reply) => remove(request, reply, await ofIssue(request)),
    )
    app.post(
      '/repos/:owner/:repo/issues/comments/:id/reactions',
      route('issue', { params: CommentParams, body: EditReactionOption, response: ADDED }),
      async (request, reply) => add(request, reply, await ofComment(request)),
    )
    app.delete(
      '/repos/:owner/:repo/issues/comments/:id/reactions',
      route('issue', { params: CommentParams, body: EditReactionOption, response: REMOVED }),
      async (request, reply) => remove(request, reply, await ofComment(request)),
    )
  }
}
