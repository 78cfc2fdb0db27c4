/** Reads the parameters of a command. Wrong ones give MongoDB's errors. */
import { CommandFailure, unsupported } from './failure.ts'
import { type BsonDocument, isDocument, numberOf } from './values.ts'

function wrongType(name: string, wanted: string): CommandFailure {
  return new CommandFailure(14, 'TypeMismatch', `the field '${name}' must be ${wanted}`)
}

export function text(command: BsonDocument, name: string): string {
  const value = command[name]
  if (typeof value !== 'string' || value === '') throw wrongType(name, 'a string')
  return value
}

export function number(command: BsonDocument, name: string, missing: number): number {
  const value = command[name] === undefined ? missing : numberOf(command[name])
  if (value === undefined) throw wrongType(name, 'a number')
  return value
}

export function flag(command: BsonDocument, name: string): boolean {
  const value = command[name]
  return value === true || (numberOf(value) ?? 0) !== 0
}

export function document(command: BsonDocument, name: string): BsonDocument {
  const value = command[name] ?? {}
  if (!isDocument(value)) throw wrongType(name, 'an object')
  return value
}

export function documents(command: BsonDocument, name: string): BsonDocument[] {
  const value = command[name]
  if (!Array.isArray(value) || !value.every(isDocument)) throw wrongType(name, 'an array of objects')
  return value
}

/** `database.collection` for the collection in the parameter. */
export function namespace(command: BsonDocument, name: string): string {
  return `${text(command, '$db')}.${text(command, name)}`
}

/** Refuses options that this server does not support and that would change the answer. */
export function refuse(command: BsonDocument, ...names: string[]): void {
  for (const name of names) if (command[name] !== undefined) throw unsupported(`the option ${name}`)
}
