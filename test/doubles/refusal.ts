/** The type and the fields of the error that an operation of the client throws. */
export async function refusal(operation: PromiseLike<unknown>): Promise<object> {
  try {
    await operation
  } catch (error) {
    if (error instanceof Error) return { ...error, message: error.message }
  }
  throw new Error('the operation was not refused')
}
