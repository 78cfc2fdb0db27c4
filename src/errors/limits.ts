/**
 * The limits that refuse or abort something, by name: the label `limit` in `/metrics`. Code that enforces a limit reports
 * it here, and the metrics count it.
 */
import { channel } from 'node:diagnostics_channel'
import type { Refusal } from './refusal.ts'

interface Limit {
  /** Effect of the limit. */
  meaning: string
  /** The settings of the limit; unset when it is fixed. */
  settings?: readonly string[]
}

const limits = <const Name extends string>(table: Record<Name, Limit>): Readonly<Record<Name, Limit>> => table

export const LIMITS = limits({
  connections: {
    meaning: 'a connection of REST or git was closed, or a new one rejected',
    settings: ['MAX_CONNECTIONS', 'MAX_CONNECTIONS_PER_ADDRESS'],
  },
  open_files: { meaning: 'a connection was rejected: the limit of open files was reached' },
  grpc_connections: {
    meaning: 'a connection of gRPC was rejected',
    settings: ['MAX_CONNECTIONS', 'MAX_CONNECTIONS_PER_ADDRESS'],
  },
  grpc_message_bytes: { meaning: 'a message of gRPC was too large', settings: ['GRPC_MAX_MESSAGE_BYTES'] },
  connection_requests: { meaning: 'a connection had too many requests without an answer, and was closed' },
  proxied_requests: {
    meaning: 'a client behind a proxy had too many open requests',
    settings: ['MAX_CONNECTIONS', 'MAX_CONNECTIONS_PER_ADDRESS'],
  },
  request_time: {
    meaning: 'the head or the JSON of a request came too slowly',
    settings: ['REQUEST_TIMEOUT_MS'],
  },
  head_bytes: { meaning: 'the head of a request was too large' },
  body_bytes: { meaning: 'a JSON body was too large', settings: ['MAX_BODY_BYTES', 'MAX_FILE_BODY_BYTES'] },
  body_chunks: { meaning: 'a body came in too many small chunks' },
  body_depth: { meaning: 'a JSON body was nested too deeply' },
  body_values: { meaning: 'a JSON body had too many values' },
  text_characters: {
    meaning: 'a text or a list of a request was too long',
    settings: ['MAX_TEXT_CHARACTERS'],
  },
  arriving_bytes: {
    meaning: 'a body was rejected: too many bytes of other bodies were arriving',
    settings: ['MAX_UNREAD_BYTES'],
  },
  long_bodies: { meaning: 'too many requests with long bodies waited' },
  unread_bytes: {
    meaning:
      'too many bytes of answers were unread: one was refused, or a client that read nothing disconnected',
    settings: ['MAX_UNREAD_BYTES'],
  },
  moments: { meaning: 'too many requests waited for past moments to be built' },
  unread_time: {
    meaning: 'a client read nothing of its answer for too long, and was disconnected',
    settings: ['UNREAD_TIMEOUT_MS'],
  },
  stop_time: {
    meaning: 'requests still ran when the server stopped, and were aborted',
    settings: ['STOP_TIMEOUT_MS'],
  },
  live_histories: { meaning: 'a live history was rejected: too many were open' },
  sign_in_failures: { meaning: 'too many bad passwords came from an address' },
  sign_ins: { meaning: 'too many sign-ins by OpenID Connect at the same time' },
  password_checks: { meaning: 'too many passwords waited to be checked' },
  markdown: { meaning: 'too many texts waited to be rendered' },
  markdown_time: { meaning: 'a text took too long to render, or became too long' },
  issue_templates: { meaning: 'too many requests waited for issue templates' },
  issue_template_time: { meaning: 'issue templates took too long to read' },
  page_diffs: { meaning: 'too many diffs of pages waited to be drawn' },
  page_diff_time: { meaning: 'a diff of a page took too long to draw' },
  openpgp: { meaning: 'too many OpenPGP keys waited to be read' },
  openpgp_time: { meaning: 'an OpenPGP key took too long to read, or a signature to check' },
  long_reads: { meaning: 'too many searches, counts and deep pages waited' },
  long_read_time: {
    meaning: 'a search, a count or a deep page took too long, and was aborted',
    settings: ['READ_TIMEOUT_MS'],
  },
  append_bytes: { meaning: 'a change was too large for one append' },
  attachment_bytes: { meaning: 'an attachment was too large', settings: ['ATTACHMENT_MAX_BYTES'] },
  lfs_bytes: { meaning: 'an object of git LFS was too large', settings: ['LFS_MAX_BYTES'] },
  upload_time: { meaning: 'an upload stalled, or the server had stopped reading it, and was aborted' },
  object_bytes: {
    meaning: 'a push brought an object that was too large',
    settings: ['MAX_OBJECT_BYTES'],
  },
  push_bytes: { meaning: 'a push was too large', settings: ['MAX_PUSH_BYTES'] },
  push_refs: {
    meaning: 'a push named too many refs, or had too many options',
    settings: ['MAX_PUSH_REFS'],
  },
  owner_bytes: {
    meaning: 'a push, a file, a fork or a repository would have exceeded the quota of its owner',
    settings: ['MAX_OWNER_BYTES'],
  },
  free_space: {
    meaning: 'a large upload was refused, to keep the free disk space for the log',
    settings: ['MIN_FREE_BYTES'],
  },
  disk_full: { meaning: 'a write failed because the disk was full' },
  fetch_request_bytes: { meaning: 'the request of a fetch was too large' },
  git_unfolded_bytes: { meaning: 'the gzip body of a git request expanded too far' },
  fetch_request_lines: {
    meaning: 'a fetch named more shallow commits, or refs to leave out, than a client has',
  },
  git_reads: { meaning: 'too many clones and fetches waited', settings: ['GIT_READ_SLOTS'] },
  git_pushes: { meaning: 'too many pushes waited', settings: ['GIT_PUSH_SLOTS'] },
  git_diffs: { meaning: 'too many requests for commits and diffs waited', settings: ['GIT_DIFF_SLOTS'] },
  git_bodies: { meaning: 'too many bodies of git requests were being read' },
  git_commands: { meaning: 'too many git commands of the server waited' },
  git_queries: { meaning: 'too many git queries of the server waited' },
  git_memory: { meaning: 'git exceeded its memory limit', settings: ['GIT_MEMORY_BYTES'] },
  git_time: {
    meaning: 'git took too long, and was aborted',
    settings: ['GIT_TIMEOUT_MS', 'GIT_DIFF_TIMEOUT_MS'],
  },
  git_output_bytes: { meaning: 'the output of git was too large' },
  webhook_deliveries: { meaning: 'a delivery was dropped: too many waited for its webhook' },
  log_bytes: { meaning: 'the reader of the log was too slow, and lines were dropped' },
  git_client_rate: {
    meaning: 'a git client sent or read too slowly, and was disconnected',
    settings: ['GIT_GRACE_MS', 'GIT_MIN_RATE_BYTES'],
  },
})

export type LimitName = keyof typeof LIMITS

const isLimitName = (name: unknown): name is LimitName =>
  typeof name === 'string' && Object.hasOwn(LIMITS, name)

/** Adds the limit to a refusal of pure code. The caller that answers with it reports the limit. */
export const atLimit = (limit: LimitName, refusal: Refusal): Refusal => ({ ...refusal, id: limit })

/** Returns the limit of a refusal by pure code; undefined for any other refusal. */
export const limitOf = ({ id }: Refusal): LimitName | undefined => (isLimitName(id) ? id : undefined)

const reached = channel('mergelog:limit')

/** Reports that a limit has refused or aborted something. */
export function limitReached(limit: LimitName): void {
  reached.publish(limit)
}

/** Calls `listener` for each reported limit of this process. Returns a function that unsubscribes. */
export function onLimitReached(listener: (limit: LimitName) => void): () => void {
  const onMessage = (message: unknown) => {
    if (isLimitName(message)) listener(message)
  }
  reached.subscribe(onMessage)
  return () => reached.unsubscribe(onMessage)
}
